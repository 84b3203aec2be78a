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

// y = dropout(x).  x, y [tokens, hidden] (may be the same); seq = tokens a sample.
void dropout_forward(const Stream& stream, const Tensor& x, const Dropout& dropout, std::int64_t seq,
                     const Tensor& y);
void dropout_backward(const Stream& stream, const Tensor& dy, const Dropout& dropout, std::int64_t seq,
                      const Tensor& dx);
// y = x + dropout(z + bias).  x, z, y [tokens, hidden]; bias [hidden] or undefined. y may be x or z.
void residual_forward(const Stream& stream, const Tensor& x, const Tensor& z, const Tensor& bias,
                      const Dropout& dropout, std::int64_t seq, const Tensor& y);
// y += x, elementwise, any shape.
void add_(const Stream& stream, const Tensor& y, const Tensor& x);
// x *= factor.
void scale_(const Stream& stream, const Tensor& x, float factor);

}  // namespace shoal::ops
