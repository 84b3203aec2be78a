// Rotary position embedding (Su et al. 2021), in the half-split form that Llama uses: the pair of element i of
// a head is (i, i + head_dim / 2), rotated by position * theta^(-2 i / head_dim).
#pragma once
#include <cstdint>

#include "shoal/ops/attention.hpp"

namespace shoal::ops {

// cos and sin f32 [seq, head_dim / 2], computed in double on the host and rounded once. Positions from `first`.
void rotary_table(const Stream& stream, std::int64_t seq, std::int64_t head_dim, double theta,
                  const Tensor& cos, const Tensor& sin, std::int64_t first = 0);
// Rotates `heads` heads of x (f32, bf16 or f16; rounded once) in place; tokens = samples x seq. backward: by minus the
// angle.
void rotary(const Stream& stream, const HeadsView& x, std::int64_t heads, std::int64_t head_dim,
            std::int64_t samples, std::int64_t seq, const Tensor& cos, const Tensor& sin, bool backward);

}  // namespace shoal::ops
