#include "core/cpu/cpu_stream.hpp"

#include "shoal/core/error.hpp"
#include "shoal/core/threads.hpp"

namespace shoal {

bool CpuEvent::query() const {
  std::lock_guard lock(mutex_);
  return done_;
}

void CpuEvent::synchronize() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_; });
}

bool CpuEvent::wait_for(std::chrono::duration<double> time) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return done_; });
}

void CpuEvent::complete() {
  std::lock_guard lock(mutex_);
  done_ = true;
  changed_.notify_all();
}

CpuStream::CpuStream(std::shared_ptr<Allocator> allocator) : allocator_(std::move(allocator)) {}

CpuStream::~CpuStream() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (worker_.joinable()) worker_.join();
}

bool CpuStream::begin_inline() {
  std::unique_lock lock(mutex_);
  if (running_ || !queue_.empty()) return false;
  rethrow(lock);
  running_ = true;
  return true;
}

void CpuStream::end_inline() {
  std::lock_guard lock(mutex_);
  running_ = false;
  changed_.notify_all();
}

void CpuStream::enqueue(std::function<void()> task) {
  std::lock_guard lock(mutex_);
  threads_ = num_threads();
  queue_.push_back(std::move(task));
  if (!worker_.joinable()) worker_ = std::thread([this] { work(); });
  changed_.notify_all();
}

void CpuStream::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return (!queue_.empty() && !running_) || (stop_ && queue_.empty()); });
    if (queue_.empty()) return;
    std::function<void()> task = std::move(queue_.front());
    queue_.pop_front();
    running_ = true;
    const bool failed = error_ != nullptr;  // after an error nothing runs until it was rethrown
    const int threads = threads_;
    lock.unlock();
    std::exception_ptr error;
    if (!failed) {
      try {
        set_num_threads(threads);
        task();
      } catch (...) {
        error = std::current_exception();
      }
    }
    task = nullptr;  // lets go of its tensors before the stream counts as idle
    lock.lock();
    if (error && !error_) error_ = error;
    running_ = false;
    changed_.notify_all();
  }
}

void CpuStream::rethrow(std::unique_lock<std::mutex>&) {
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void CpuStream::synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty() && !running_; });
  rethrow(lock);
}

std::shared_ptr<EventImpl> CpuStream::record() {
  auto event = std::make_shared<CpuEvent>();
  {
    std::lock_guard lock(mutex_);
    if (queue_.empty() && !running_) {
      event->complete();
      return event;
    }
  }
  // An event completes even when a task before it failed: whoever waits goes on to the error itself.
  struct Completer {
    std::shared_ptr<CpuEvent> event;
    explicit Completer(std::shared_ptr<CpuEvent> e) : event(std::move(e)) {}
    Completer(const Completer&) = delete;
    Completer& operator=(const Completer&) = delete;
    ~Completer() { event->complete(); }
  };
  auto completer = std::make_shared<Completer>(event);
  enqueue([completer] {});
  return event;
}

void CpuStream::wait(const std::shared_ptr<EventImpl>& event) {
  if (!event || event->query()) return;
  enqueue([event] { event->synchronize(); });
}

CpuStream& cpu_stream(const Stream& stream) {
  if (stream.empty()) throw DeviceError("an empty stream was used");
  if (stream.device().type != DeviceType::cpu)
    throw DeviceError("no kernel for device " + stream.device().str() + " in this build");
  return static_cast<CpuStream&>(*stream.impl());
}

}  // namespace shoal
