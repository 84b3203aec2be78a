// Flat optimizer kernels and the sums for the gradient norm. All tensors are flat f32 of equal length.
// Elementwise: any partition gives the same bits.
#pragma once
#include <cstdint>

#include "shoal/core/tensor.hpp"

namespace shoal::ops {

// AdamW (Loshchilov, Hutter 2019, algorithm 2) with g = grad * grad_scale:
//   m = beta1 m + one_minus_beta1 g;  v = beta2 v + one_minus_beta2 g^2
//   p = p * (1 - lr weight_decay) - lr / bias1 * m / (sqrt(v / bias2) + eps)
// The scalars are computed in double by the caller (one_minus_beta = 1 - beta; bias = 1 - beta^t) and rounded
// once each.
struct AdamWStep {
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float decay;           // 1 - lr * weight_decay
  float step_size;       // lr / bias1
  float inv_sqrt_bias2;  // 1 / sqrt(bias2)
  float eps;
  float grad_scale;  // clipping
};
void adamw_step(const Stream& stream, const Tensor& p, const Tensor& grad, const Tensor& m, const Tensor& v,
                const AdamWStep& step);

// SGD with momentum (Sutskever et al. 2013 in the form PyTorch uses): g = grad * grad_scale + weight_decay p;
// buf = first ? g : momentum buf + g;  p -= lr (nesterov ? g + momentum buf : buf). buf may be undefined
// when momentum is 0.
struct SgdStep {
  float lr, momentum, weight_decay, grad_scale;
  bool nesterov = false, first = false;
};
void sgd_step(const Stream& stream, const Tensor& p, const Tensor& grad, const Tensor& buf,
              const SgdStep& step);

// out f64 [n / 256]: the sum of squares of each chunk of 256 elements of x [n] (n a multiple of 256), in FP64, in
// fixed lanes (R8).
void chunk_sum_squares(const Stream& stream, const Tensor& x, const Tensor& out);

}  // namespace shoal::ops
