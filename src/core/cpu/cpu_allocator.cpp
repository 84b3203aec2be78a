// The CPU's caching allocator. Blocks are kept by rounded size: a training step asks for the same sizes
// each time, and returning them to the system would cost a page fault for every 4 KiB of every step.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "shoal/core/allocator.hpp"
#include "shoal/core/error.hpp"

namespace shoal {
namespace {

constexpr std::int64_t alignment = 256;
constexpr std::int64_t huge_page = std::int64_t{2} << 20;

std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

class CachingAllocator final : public Allocator {
 public:
  ~CachingAllocator() override { CachingAllocator::release_cached(); }
  Device device() const override { return {DeviceType::cpu, 0}; }

  void* allocate(std::int64_t nbytes) override {
    if (nbytes < 0) throw DeviceError(fmt::format("allocation of {} bytes", nbytes));
    if (nbytes == 0) return nullptr;
    const std::int64_t size = round_up(nbytes, alignment);
    std::lock_guard lock(mutex_);
    void* p = take(size);
    stats_.in_use += size;
    stats_.peak = std::max(stats_.peak, stats_.in_use);
    ++stats_.allocations;
    return p;
  }

  void deallocate(void* p, std::int64_t nbytes) noexcept override {
    if (!p) return;
    const std::int64_t size = round_up(nbytes, alignment);
    std::lock_guard lock(mutex_);
    stats_.in_use -= size;
    free_[size].push_back(p);
  }

  MemoryStats stats() const override {
    std::lock_guard lock(mutex_);
    return stats_;
  }

  void reset_peak() override {
    std::lock_guard lock(mutex_);
    stats_.peak = stats_.in_use;
  }

  void release_cached() override {
    std::lock_guard lock(mutex_);
    release_locked();
  }

 private:
  void* take(std::int64_t size) {
    if (auto it = free_.find(size); it != free_.end() && !it->second.empty()) {
      void* p = it->second.back();
      it->second.pop_back();
      return p;
    }
    void* p = from_system(size);
    if (!p) {
      release_locked();
      p = from_system(size);
    }
    if (!p)
      throw DeviceError(fmt::format("out of memory on cpu: {} bytes asked for, {} in use, {} reserved", size,
                                    stats_.in_use, stats_.reserved));
    stats_.reserved += size;
    return p;
  }

  static void* from_system(std::int64_t size) {
    const bool large = size >= huge_page;
    void* p = std::aligned_alloc(large ? huge_page : alignment, large ? round_up(size, huge_page) : size);
    if (p && large) ::madvise(p, size, MADV_HUGEPAGE);
    return p;
  }

  void release_locked() {
    for (auto& [size, blocks] : free_) {
      for (void* p : blocks) std::free(p);
      stats_.reserved -= size * static_cast<std::int64_t>(blocks.size());
    }
    free_.clear();
  }

  mutable std::mutex mutex_;
  std::map<std::int64_t, std::vector<void*>> free_;
  MemoryStats stats_;
};

}  // namespace

std::shared_ptr<Allocator> make_caching_allocator(Device device) {
  if (device.type != DeviceType::cpu)
    throw DeviceError("no device " + device.str() + ": this build has cpu only");
  return std::make_shared<CachingAllocator>();
}

std::shared_ptr<Allocator> default_allocator(Device device) {
  static const std::shared_ptr<Allocator> cpu = make_caching_allocator({DeviceType::cpu, 0});
  if (device.type != DeviceType::cpu) return make_caching_allocator(device);
  return cpu;
}

}  // namespace shoal
