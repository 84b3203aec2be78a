// Dropout and the residual addition. The mask is a function of the logical place (R10): element e of the
// microbatch is element first_sample * elements_per_sample + e of the whole global batch.
#pragma once
#include <cstdint>

#include "shoal/core/random.hpp"
#include "shoal/core/tensor.hpp"

namespace shoal::ops {

struct Dropout {
  double p = 0.0;  // 0: no dropout, nothing is drawn
  RandomKey key;
  std::int64_t first_sample = 0;  // index in the global batch of the microbatch's first sample
};

// y = dropout(x).  x, y [tokens, hidden] of one type, f32, bf16 or f16 (may be the same); seq = tokens a sample. The
// product with 1 / (1 - p) is rounded once.
void dropout_forward(const Stream& stream, const Tensor& x, const Dropout& dropout, std::int64_t seq,
                     const Tensor& y);
void dropout_backward(const Stream& stream, const Tensor& dy, const Dropout& dropout, std::int64_t seq,
                      const Tensor& dx);
// y = x + dropout(z + bias).  x, y [tokens, hidden] of one training type T; z, alike, of T or f32; bias [hidden] of any
// training type, or undefined. z + bias is rounded to T before dropout reads it, and the sum with x once more (R7). y
// may be x, or z where that is of T.
void residual_forward(const Stream& stream, const Tensor& x, const Tensor& z, const Tensor& bias,
                      const Dropout& dropout, std::int64_t seq, const Tensor& y);
// y += x, elementwise, f32, any shape.
void add_(const Stream& stream, const Tensor& y, const Tensor& x);
// x *= factor, f32.
void scale_(const Stream& stream, const Tensor& x, float factor);

}  // namespace shoal::ops
