#pragma once
#include "kernels/common/isa.hpp"
#include "kernels/common/random_args.hpp"

// out[i] = number first + i of the key.
SHOAL_KERNEL(void random_bits(const RandomArgs& key, std::uint64_t first, std::uint32_t* out, std::int64_t n))
