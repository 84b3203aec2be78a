// The keys, the values, and who waits for what: all of the Store but its sockets.
#pragma once
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/store/wire.hpp"

namespace shoal::comm::store {

class Table {
 public:
  using Clock = std::chrono::steady_clock;
  using Client = std::uint64_t;  // a connection
  struct Failure {
    int rank;
    std::string message;
  };

  Table(int size, const StoreLimits& limits) : size_(size), limits_(limits) {}

  // One request of a client of `rank`. Its reply, or what else has become due, is in take_replies(). Throws
  // MalformedFrame.
  void handle(Client client, int rank, std::string_view request, Clock::time_point now);
  // The client is gone: nobody waits any longer.
  void drop(Client client);
  // Every request is answered with this from now on. False when there was a failure before.
  bool fail(int rank, const std::string& message);
  void expire(Clock::time_point now);
  std::optional<Clock::time_point> next_deadline() const;
  bool waiting() const { return !waiters_.empty(); }
  const std::optional<Failure>& failure() const { return failure_; }
  std::vector<std::pair<Client, std::string>> take_replies() { return std::exchange(replies_, {}); }

 private:
  struct Waiter {
    Op op;
    Clock::time_point deadline;
    std::vector<std::string> keys;  // get, wait
    std::size_t missing = 0;        // the first of them that has no value
    std::string gather;             // gather
  };
  struct Gather {
    std::vector<std::optional<std::string>> values;
    std::size_t arrived = 0;
  };

  void reply(Client client, Writer&& w) { replies_.emplace_back(client, w.take()); }
  void refuse(Client client, const std::string& why);
  bool store(Client client, const std::string& key,
             std::string value);  // false: refused, it would be too much
  void wait(Client client, Op op, Reader& in, Clock::time_point now);
  void gather(Client client, int rank, Reader& in, Clock::time_point now);
  void add(Client client, Reader& in);
  void compare_set(Client client, Reader& in);
  void changed(const std::string& key);
  bool advance(Client client, Waiter& waiter);  // true: answered
  std::string timed_out(const Waiter& waiter) const;

  const int size_;
  const StoreLimits limits_;
  std::map<std::string, std::string> values_;
  std::size_t stored_ = 0;
  std::map<Client, Waiter> waiters_;
  std::map<std::string, Gather> gathers_;
  std::optional<Failure> failure_;
  std::vector<std::pair<Client, std::string>> replies_;
};

}  // namespace shoal::comm::store
