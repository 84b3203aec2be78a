// Memory of a device, with the counters that the prediction of memory is held against.
#pragma once
#include <cstdint>
#include <memory>

#include "shoal/core/device.hpp"

namespace shoal {

// All in bytes. in_use counts what was asked for (rounded to 256); reserved what is held from the system.
struct MemoryStats {
  std::int64_t in_use = 0;
  std::int64_t peak = 0;
  std::int64_t reserved = 0;
  std::int64_t allocations = 0;  // calls so far
};

// Thread-safe. Memory is aligned to 256 bytes and not cleared.
class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual Device device() const = 0;
  virtual void* allocate(std::int64_t nbytes) = 0;  // nullptr for 0; throws DeviceError naming the size
  virtual void deallocate(void* p, std::int64_t nbytes) noexcept = 0;
  virtual MemoryStats stats() const = 0;
  virtual void reset_peak() = 0;
  virtual void release_cached() = 0;  // gives free blocks back to the system
};

// A caching allocator: freed blocks are kept, by rounded size, for the next request of that size, so that
// a training step after the first asks nothing of the system. Each call makes an independent one; a rank
// owns its own, so that peaks are per rank.
std::shared_ptr<Allocator> make_caching_allocator(Device device);

// The process-wide allocator used where a stream was made without one.
std::shared_ptr<Allocator> default_allocator(Device device);

}  // namespace shoal
