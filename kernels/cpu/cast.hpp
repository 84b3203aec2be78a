#pragma once
#include "kernels/common/isa.hpp"
#include "kernels/common/random_args.hpp"
#include "kernels/common/storage_code.hpp"

// n elements, rounded once to nearest even where the result is narrower; the arrays do not overlap. On this thread
// alone: communication threads call it.
SHOAL_KERNEL(void cast(Storage from_type, const void* from, Storage to_type, void* to, std::int64_t n))
// The same on as many threads as an operation has.
SHOAL_KERNEL(void convert(Storage from_type, const void* from, Storage to_type, void* to, std::int64_t n))
// y[e], of bf16 or f16, is a neighbour of x[e], drawn by number first + e.
SHOAL_KERNEL(void round_stochastic(const float* x, Storage type, void* y, std::int64_t n,
                                   const RandomArgs& random, std::uint64_t first))
