// What a Work refers to.
#pragma once
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>

#include "core/cpu/cpu_stream.hpp"
#include "shoal/comm/communicator.hpp"

namespace shoal {

class WorkImpl {
 public:
  virtual ~WorkImpl() = default;
  virtual bool is_completed() const = 0;
  virtual void synchronize() const = 0;
  virtual bool wait_for(std::chrono::duration<double> time) const = 0;
  virtual void wait(const Stream& stream) const = 0;
};

namespace comm {

// Completed by a thread of the host.
class HostWork final : public WorkImpl, public std::enable_shared_from_this<HostWork> {
 public:
  bool is_completed() const override;
  void synchronize() const override;
  bool wait_for(std::chrono::duration<double> time) const override;
  void wait(const Stream& stream) const override;
  void complete(std::exception_ptr error = nullptr);
  // Where no thread moves messages: called instead by those who ask for this work.
  void drive_by(std::function<void()> step) { drive_ = std::move(step); }
  // In a group that has not ended: nobody may wait for it yet.
  void hold(bool held) { held_.store(held, std::memory_order_release); }

 private:
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }
  void require_started() const;
  std::shared_ptr<CpuEvent> event_ = std::make_shared<CpuEvent>();
  std::exception_ptr error_;  // written before the event completes
  std::function<void()> drive_;
  std::atomic<bool> held_{false};
};

}  // namespace comm
}  // namespace shoal
