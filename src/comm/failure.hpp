// The error that a communicator carries from its first failure on.
#pragma once
#include <atomic>
#include <mutex>
#include <string>

namespace shoal::comm {

class Failure {
 public:
  enum class Kind : unsigned char { comm, timeout };

  // The first call wins and returns true. `remote`: another rank saw it first and told us.
  bool set(Kind kind, const std::string& message, bool remote = false);
  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  [[noreturn]] void raise() const;  // failed() only: CommError or TimeoutError
  void check() const {
    if (failed()) raise();
  }
  // What was set; empty before.
  std::string message() const;
  Kind kind() const;
  bool remote() const;

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> failed_{false};
  Kind kind_ = Kind::comm;
  bool remote_ = false;
  std::string message_;
};

// Timeout for a TimeoutError, comm for anything else.
Failure::Kind kind_of(const std::exception& error);

}  // namespace shoal::comm
