// The communication thread of one communicator, and its queue. A thread of its own because MPI's non-blocking
// collectives move only while somebody polls them; one queue a communicator because the order of operations
// is per communicator. The thread starts with the first asynchronous operation.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace shoal::comm {

class Queue {
 public:
  explicit Queue(int rank) : rank_(rank) {}
  ~Queue() { stop(); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Runs `task` after what is queued and returns when it is done; in the calling thread when nothing is
  // queued. Throws what it throws.
  void run(const std::function<void()>& task);
  // Queues `task`, which must not throw.
  void post(std::function<void()> task);
  bool busy();  // something runs or is queued
  // Finishes what is queued and ends the thread.
  void stop();

 private:
  void work();

  const int rank_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool busy_ = false;  // a task runs, in the thread or in a caller
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace shoal::comm
