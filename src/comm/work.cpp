#include "comm/work.hpp"

namespace shoal {

bool Work::is_completed() const { return !impl_ || impl_->is_completed(); }
void Work::synchronize() const {
  if (impl_) impl_->synchronize();
}
void Work::wait(const Stream& stream) const {
  if (impl_) impl_->wait(stream);
}

namespace comm {

void HostWork::synchronize() const {
  event_->synchronize();
  rethrow();
}

// A failed operation fails the stream: what was to use its result does not run.
void HostWork::wait(const Stream& stream) const {
  if (event_->query()) return rethrow();
  stream.wait(Event(event_));
  stream.host_task([self = shared_from_this()] { self->rethrow(); });
}

void HostWork::complete(std::exception_ptr error) {
  error_ = std::move(error);
  event_->complete();
}

}  // namespace comm
}  // namespace shoal
