#include "comm/failure.hpp"

#include "shoal/core/error.hpp"
#include "shoal/core/log.hpp"

namespace shoal::comm {

bool Failure::set(Kind kind, const std::string& message, bool remote) {
  {
    std::lock_guard lock(mutex_);
    if (failed_.load(std::memory_order_relaxed)) return false;
    kind_ = kind;
    remote_ = remote;
    message_ = message;
    failed_.store(true, std::memory_order_release);
  }
  log::debug("failed: " + message);
  return true;
}

void Failure::raise() const {
  std::lock_guard lock(mutex_);
  if (kind_ == Kind::timeout) throw TimeoutError(message_);
  throw CommError(message_);
}

std::string Failure::message() const {
  std::lock_guard lock(mutex_);
  return message_;
}

Failure::Kind Failure::kind() const {
  std::lock_guard lock(mutex_);
  return kind_;
}

bool Failure::remote() const {
  std::lock_guard lock(mutex_);
  return remote_;
}

Failure::Kind kind_of(const std::exception& error) {
  return dynamic_cast<const TimeoutError*>(&error) ? Failure::Kind::timeout : Failure::Kind::comm;
}

}  // namespace shoal::comm
