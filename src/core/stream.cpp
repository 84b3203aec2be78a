#include "shoal/core/stream.hpp"

#include "core/cpu/cpu_stream.hpp"
#include "shoal/core/error.hpp"

namespace shoal {

bool Event::query() const { return !impl_ || impl_->query(); }

void Event::synchronize() const {
  if (impl_) impl_->synchronize();
}

Stream Stream::create(Device device, std::shared_ptr<Allocator> allocator) {
  if (device.type != DeviceType::cpu)
    throw DeviceError("no device " + device.str() + ": this build has cpu only");
  if (!allocator) allocator = default_allocator(device);
  return Stream(std::make_shared<CpuStream>(std::move(allocator)));
}

Device Stream::device() const { return impl_->device(); }
const std::shared_ptr<Allocator>& Stream::allocator() const { return impl_->allocator(); }
Event Stream::record() const { return Event(impl_->record()); }
void Stream::wait(const Event& event) const { impl_->wait(event.shared()); }
void Stream::synchronize() const { impl_->synchronize(); }
void Stream::host_task(std::function<void()> task) const { impl_->host_task(std::move(task)); }

}  // namespace shoal
