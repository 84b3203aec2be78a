#pragma once
#include "kernels/common/isa.hpp"

namespace shoal::kernels {
// Where a combination goes: the same to each of `copies` arrays. stream: past the caches.
struct CombineTo {
  void* const* dst;
  int copies;
  bool stream;
};
}  // namespace shoal::kernels

// op: 0 sum, 1 min, 2 max, 3 product (ops::Combine). scales: null, or one a source.
#define SHOAL_COMBINE_KERNEL(dtype)                                                                 \
  SHOAL_KERNEL(void combine_##dtype(int op, const void* const* sources, int n, const CombineTo& to, \
                                    std::int64_t count, int divisor, const double* scales))
SHOAL_COMBINE_KERNEL(f32)
SHOAL_COMBINE_KERNEL(f64)
SHOAL_COMBINE_KERNEL(f16)
SHOAL_COMBINE_KERNEL(bf16)
SHOAL_COMBINE_KERNEL(i32)
SHOAL_COMBINE_KERNEL(i64)
SHOAL_COMBINE_KERNEL(u8)
#undef SHOAL_COMBINE_KERNEL
