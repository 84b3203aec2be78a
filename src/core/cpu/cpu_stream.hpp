// The CPU's stream: a queue with a worker thread, which is only started when something must wait.
// Work given to an idle stream runs in the calling thread.
#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "shoal/core/stream.hpp"

namespace shoal {

class CpuEvent final : public EventImpl {
 public:
  bool query() const override;
  void synchronize() const override;
  bool wait_for(std::chrono::duration<double> time) const;  // true when complete
  void complete();

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;
};

class CpuStream final : public StreamImpl {
 public:
  explicit CpuStream(std::shared_ptr<Allocator> allocator);
  ~CpuStream() override;  // finishes what was given; errors not yet rethrown are lost
  Device device() const override { return {DeviceType::cpu, 0}; }
  const std::shared_ptr<Allocator>& allocator() const override { return allocator_; }
  std::shared_ptr<EventImpl> record() override;
  void wait(const std::shared_ptr<EventImpl>& event) override;
  void synchronize() override;
  void host_task(std::function<void()> task) override { submit(std::move(task)); }

  // Runs f now in this thread when the stream is idle, else after what is queued. f must own what it
  // uses (capture tensors by value) and must not submit to this stream.
  template <class F>
  void submit(F&& f) {
    if (!begin_inline()) {
      enqueue(std::function<void()>(std::forward<F>(f)));
      return;
    }
    InlineScope scope{*this};
    f();
  }

 private:
  struct InlineScope {
    CpuStream& stream;
    ~InlineScope() { stream.end_inline(); }
  };
  bool begin_inline();
  void end_inline();
  void enqueue(std::function<void()> task);
  void work();
  void rethrow(std::unique_lock<std::mutex>& lock);

  std::shared_ptr<Allocator> allocator_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool running_ = false;  // a task runs, in the worker or inline
  bool stop_ = false;
  int threads_ = 1;  // the caller's num_threads(), which the worker takes over
  std::exception_ptr error_;
  std::thread worker_;
};

// The CpuStream behind a handle; throws DeviceError when the stream is empty or of another device.
CpuStream& cpu_stream(const Stream& stream);

}  // namespace shoal
