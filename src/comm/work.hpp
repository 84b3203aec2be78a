// What a Work refers to.
#pragma once
#include <exception>
#include <memory>

#include "core/cpu/cpu_stream.hpp"
#include "shoal/comm/communicator.hpp"

namespace shoal {

class WorkImpl {
 public:
  virtual ~WorkImpl() = default;
  virtual bool is_completed() const = 0;
  virtual void synchronize() const = 0;
  virtual void wait(const Stream& stream) const = 0;
};

namespace comm {

// Completed by a communication thread of the host.
class HostWork final : public WorkImpl, public std::enable_shared_from_this<HostWork> {
 public:
  bool is_completed() const override { return event_->query(); }
  void synchronize() const override;
  void wait(const Stream& stream) const override;
  void complete(std::exception_ptr error = nullptr);

 private:
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }
  std::shared_ptr<CpuEvent> event_ = std::make_shared<CpuEvent>();
  std::exception_ptr error_;  // written before the event completes
};

}  // namespace comm
}  // namespace shoal
