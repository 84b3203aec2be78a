// Counts the bytes of a computation that is not run: the modules repeat their allocations and releases on a
// meter, in the order of forward and backward, so that a job's peak is known before it starts.
#pragma once
#include <algorithm>
#include <cstdint>

#include "shoal/core/dtype.hpp"

namespace shoal::nn {

class MemoryMeter {
 public:
  // For a computation with activations of that type.
  explicit MemoryMeter(DType activations = DType::f32) : activations_(activations) {}
  DType activations() const { return activations_; }

  // A tensor of f32 (or i32) elements is allocated, released. Sizes are rounded up as the allocator does.
  void take(std::int64_t elements) { take_bytes(rounded(elements)); }
  void give(std::int64_t elements) { in_use_ -= rounded(elements); }
  // An activation, or the gradient of one.
  void take_activation(std::int64_t elements) { take_bytes(rounded(elements, activations_)); }
  void give_activation(std::int64_t elements) { in_use_ -= rounded(elements, activations_); }
  // Memory that one call takes and returns.
  void scratch(std::int64_t elements) {
    take(elements);
    give(elements);
  }
  std::int64_t in_use() const { return in_use_; }
  std::int64_t peak() const { return peak_; }

  // Bytes that the allocator gives for so many elements.
  static std::int64_t rounded(std::int64_t elements, DType type = DType::f32) {
    return (elements * size_of(type) + 255) / 256 * 256;
  }

 private:
  void take_bytes(std::int64_t bytes) {
    in_use_ += bytes;
    peak_ = std::max(peak_, in_use_);
  }

  DType activations_;
  std::int64_t in_use_ = 0, peak_ = 0;
};

}  // namespace shoal::nn
