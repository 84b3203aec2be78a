// The serving side of the Store: one thread that never blocks on a connection, so that none delays another.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/store/address.hpp"
#include "comm/store/table.hpp"

namespace shoal::comm::store {

class Server {
 public:
  // Listens; throws ConfigError (see listen_on, token_field) and for no token where one is needed.
  Server(Address address, const std::string& token, int size, const StoreLimits& limits);
  // Answers what waits, for some seconds at most; then closes every connection.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const Address& address() const { return address_; }
  // The first rank that failed or was lost.
  std::optional<Table::Failure> failure() const;
  int connections() const { return connections_.load(std::memory_order_relaxed); }

 private:
  // token: fewer than 64 bytes have come. hello: who it is, is not known. ready: reads a request. waiting: its answer
  // is not there yet; nothing is read. closing: closed as soon as its answer is out.
  enum class State : unsigned char { token, hello, ready, waiting, closing };
  struct Connection {
    Fd fd;
    State state = State::token;
    int rank = -1;
    std::string in, out;
    std::size_t sent = 0;        // of out
    Clock::time_point deadline;  // of the handshake
    bool stranger() const { return state == State::token || state == State::hello; }
  };
  using Id = Table::Client;

  void run();
  void poll_once();
  void accept_some(int listener);
  void make_room();
  void read(Id id, Connection& c);
  void consume(Id id, Connection& c);
  void check_token(Connection& c);
  void request(Id id, Connection& c, const std::string& payload);
  void hello(Connection& c, const std::string& payload);
  void send(Connection& c, const std::string& bytes);
  void refuse(Connection& c, const std::string& why);  // says why, then closes
  void flush(Connection& c);
  void lost(Id id, const Connection& c);
  void deliver();
  void sweep(Clock::time_point now);
  int poll_timeout(Clock::time_point now) const;
  bool idle() const;

  Address address_;
  const TokenField token_;
  const bool same_user_;  // instead of a token
  const int size_;
  const StoreLimits limits_;
  std::vector<Fd> listeners_;
  Fd wake_;
  Clock::time_point accept_again_{};
  mutable std::mutex mutex_;  // of failed_
  std::optional<Table::Failure> failed_;
  Table table_;  // this and the following: of the thread
  std::map<Id, Connection> open_;
  std::vector<Id> gone_;
  Id next_ = 1;
  std::atomic<int> connections_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace shoal::comm::store
