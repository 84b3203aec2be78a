#include "comm/work.hpp"

#include <algorithm>

#include "comm/wait.hpp"
#include "shoal/core/error.hpp"

namespace shoal {

bool Work::is_completed() const { return !impl_ || impl_->is_completed(); }
void Work::synchronize() const {
  if (impl_) impl_->synchronize();
}
bool Work::wait_for(std::chrono::duration<double> time) const { return !impl_ || impl_->wait_for(time); }
void Work::wait(const Stream& stream) const {
  if (impl_) impl_->wait(stream);
}

namespace comm {

void HostWork::require_started() const {
  if (held_.load(std::memory_order_acquire))
    throw CommError("a Work of a group that has not ended: wait for it after group_end");
}

bool HostWork::is_completed() const {
  if (drive_ && !event_->query()) drive_();  // a completed one may outlive what moves it
  return event_->query();
}

void HostWork::synchronize() const {
  require_started();
  if (drive_)
    for (Backoff backoff(true); !event_->query(); backoff.pause()) drive_();
  event_->synchronize();
  rethrow();
}

bool HostWork::wait_for(std::chrono::duration<double> time) const {
  require_started();
  // Longer than a clock can count is for ever.
  const auto limit = std::clamp(time, std::chrono::duration<double>(0), std::chrono::duration<double>(1e9));
  if (!drive_) return event_->wait_for(limit);
  for (Backoff backoff(true); !event_->query(); backoff.pause()) {
    drive_();
    if (backoff.elapsed() >= limit) return event_->query();
  }
  return true;
}

// A failed operation fails the stream: what was to use its result does not run.
void HostWork::wait(const Stream& stream) const {
  require_started();
  if (event_->query()) return rethrow();
  if (drive_) stream.host_task([self = shared_from_this()] { self->synchronize(); });
  stream.wait(Event(event_));
  stream.host_task([self = shared_from_this()] { self->rethrow(); });
}

void HostWork::complete(std::exception_ptr error) {
  error_ = std::move(error);
  event_->complete();
}

}  // namespace comm
}  // namespace shoal
