// Counts the bytes of a computation that is not run: the modules repeat their allocations and releases on a
// meter, in the order of forward and backward, so that a job's peak is known before it starts.
#pragma once
#include <algorithm>
#include <cstdint>

namespace shoal::nn {

class MemoryMeter {
 public:
  // A tensor of f32 (or i32) elements is allocated, released. Sizes are rounded up as the allocator does.
  void take(std::int64_t elements) {
    in_use_ += rounded(elements);
    peak_ = std::max(peak_, in_use_);
  }
  void give(std::int64_t elements) { in_use_ -= rounded(elements); }
  // Memory that one call takes and returns.
  void scratch(std::int64_t elements) {
    take(elements);
    give(elements);
  }
  std::int64_t in_use() const { return in_use_; }
  std::int64_t peak() const { return peak_; }

  static std::int64_t rounded(std::int64_t elements) { return (elements * 4 + 255) / 256 * 256; }

 private:
  std::int64_t in_use_ = 0, peak_ = 0;
};

}  // namespace shoal::nn
