#include "comm/queue.hpp"

#include <future>
#include <utility>

#include "shoal/core/log.hpp"
#include "shoal/core/threads.hpp"

namespace shoal::comm {

void Queue::run(const std::function<void()>& task) {
  {
    std::unique_lock lock(mutex_);
    if (!busy_ && tasks_.empty()) {
      busy_ = true;
      lock.unlock();
      struct Done {
        Queue& queue;
        ~Done() {
          std::lock_guard lock(queue.mutex_);
          queue.busy_ = false;
          queue.changed_.notify_all();
        }
      } done{*this};
      task();
      return;
    }
  }
  std::promise<void> promise;
  std::future<void> result = promise.get_future();
  post([&] {
    try {
      task();
      promise.set_value();
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  });
  result.get();
}

void Queue::post(std::function<void()> task) {
  std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  changed_.notify_all();
}

bool Queue::busy() {
  std::lock_guard lock(mutex_);
  return busy_ || !tasks_.empty();
}

void Queue::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Queue::work() {
  log::set_rank(rank_);
  set_num_threads(1);  // the compute threads belong to the computation that goes on meanwhile
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return (!tasks_.empty() && !busy_) || (stop_ && tasks_.empty()); });
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace shoal::comm
