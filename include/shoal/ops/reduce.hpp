// The sums that collectives use: host functions on raw memory, called from communication threads.
#pragma once
#include <cstdint>

#include "shoal/core/dtype.hpp"

namespace shoal::ops {

enum class Combine : unsigned char { sum, min, max, product };

// dst[i] = the combination of sources[0][i], ..., sources[n-1][i] by the tree's order (shard/tree.hpp), then
// divided by `divisor` when it is not 1. f16 and bf16 are accumulated in FP32 and rounded once; integers wrap.
// With `scales` (n of them; sums of floating-point types only) source s is first multiplied by scales[s], in the
// type of the sum.
// dst may be any of the sources. Deterministic: the bits do not depend on count, alignment or threads.
void combine(Combine op, DType dtype, const void* const* sources, int n, void* dst, std::int64_t count,
             int divisor = 1, const double* scales = nullptr);

// The same, written to each of `copies` arrays. stream: past the caches, for results that will not be read soon.
void combine_to(Combine op, DType dtype, const void* const* sources, int n, void* const* dst, int copies,
                bool stream, std::int64_t count, int divisor = 1, const double* scales = nullptr);

// A copy of `bytes` bytes, past the caches; the two do not overlap.
void copy_past_caches(const void* from, void* to, std::int64_t bytes);

}  // namespace shoal::ops
