// Sends and receives of one communicator: in order for each pair of ranks, and beside everything else.
//
// A backend gives each message as a Transfer, a machine whose steps never block. A blocking send or receive is moved by
// the calling thread, an asynchronous one by a thread that all of them share and that starts with the first.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/request.hpp"
#include "comm/wait.hpp"
#include "comm/work.hpp"

namespace shoal::comm {

// A send or receive under way.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // `ordered`: the next message of the same pair and direction may begin. Both `ordered` and `done` stay.
  enum class State { waiting, ordered, done };
  virtual State step() = 0;  // as far as it goes without waiting
  // Now and then while it waits, `seconds` after it began: throws when the wait is to end, for the backend's own
  // reasons (the peer has gone, the deadline is over, the communicator failed). Never while the other side uses this
  // one's memory.
  virtual void check(double seconds) = 0;
};

// What Messages needs of a communicator.
class Messenger {
 public:
  virtual ~Messenger() = default;
  // Begins a send or receive whose turn has come. Never blocks.
  virtual std::unique_ptr<Transfer> transfer(const Operation& op) = 0;
  // Throws what the communicator failed with, if it did.
  virtual void require_working() = 0;
  // A message failed with `error`: all ranks are to fail. The error to throw.
  virtual std::exception_ptr message_failed(const Operation& op, std::exception_ptr error) = 0;
};

class Messages {
 public:
  // `threaded` below: false where only the callers' threads may move messages.
  Messages(Messenger& owner, int rank, int ranks);
  ~Messages() { stop(); }

  // One message under way: its place in the order of its pair, and its Transfer once it has begun.
  class Pending;
  // Takes its place in the order now; begins when `ready` is complete.
  std::shared_ptr<Pending> add(Operation op, Event ready);
  // Moves them in this thread until all are done, or have failed: then throws the first error.
  void run(std::vector<std::shared_ptr<Pending>> pending, bool threaded);
  // Leaves it to the thread, or, not threaded, to drive().
  void post(std::shared_ptr<Pending> pending, std::shared_ptr<HostWork> work, bool threaded);
  // One step of everything that was posted, in this thread.
  void drive();
  bool busy() const { return posted_count_.load(std::memory_order_acquire) > 0; }
  // Finishes what was posted and ends the thread.
  void stop();

 private:
  struct Lane {
    std::atomic<std::int64_t> next{0}, serving{0};
  };
  struct Posted {
    std::shared_ptr<Pending> pending;
    std::shared_ptr<HostWork> work;
  };
  bool step(std::vector<Posted>& all, bool check);  // true when one of them completed
  void work();

  Messenger& owner_;
  const int rank_;
  std::vector<Lane> lanes_;  // to each rank, then from each rank
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Posted> posted_;
  std::atomic<int> posted_count_{0};
  std::mutex driving_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace shoal::comm
