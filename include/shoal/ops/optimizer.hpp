// Flat optimizer kernels and the sums for the gradient norm. All tensors are flat f32 of equal length.
// Elementwise: any partition gives the same bits.
//
// `narrow`, where defined, is bf16 or f16 of that length, and gets the updated p, rounded once, in the same pass.
#pragma once
#include <cstdint>

#include "shoal/core/tensor.hpp"

namespace shoal::ops {

// AdamW (Loshchilov, Hutter 2019, algorithm 2) with g = grad * grad_scale + weight_decay * p:
//   m = beta1 m + one_minus_beta1 g;  v = beta2 v + one_minus_beta2 g^2
//   p = p * decay - lr / bias1 * m / (sqrt(v / bias2) + eps)
// decay = 1 - lr * (decoupled weight decay); weight_decay is the coupled one of Adam (Kingma, Ba 2015), 0 in AdamW.
// The scalars are computed in double by the caller (one_minus_beta = 1 - beta; bias = 1 - beta^t) and rounded
// once each.
struct AdamWStep {
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float decay;
  float step_size;       // lr / bias1
  float inv_sqrt_bias2;  // 1 / sqrt(bias2)
  float eps;
  float grad_scale;  // clipping, and 1 / loss scale
  float weight_decay = 0;
};
void adamw_step(const Stream& stream, const Tensor& p, const Tensor& grad, const Tensor& m, const Tensor& v,
                const AdamWStep& step, const Tensor& narrow = {});
// The direction of LAMB (You et al. 2020), over grad: m and v as above without coupled decay, then
//   grad = step_size m / (sqrt(v / bias2) + eps) + weight_decay p,   step_size = 1 / bias1.
// p is f32, bf16 or f16.
void adam_direction(const Stream& stream, const Tensor& p, const Tensor& grad, const Tensor& m,
                    const Tensor& v, const AdamWStep& step);

// SGD with momentum (Sutskever et al. 2013 in the form PyTorch uses): g = grad * grad_scale + weight_decay p;
// buf = first ? g : momentum buf + g;  p -= lr (nesterov ? g + momentum buf : buf). buf may be undefined
// when momentum is 0.
struct SgdStep {
  float lr, momentum, weight_decay, grad_scale;
  bool nesterov = false, first = false;
};
void sgd_step(const Stream& stream, const Tensor& p, const Tensor& grad, const Tensor& buf,
              const SgdStep& step, const Tensor& narrow = {});

// Lion (Chen et al. 2023, algorithm 2) with g = grad * grad_scale: c = beta1 m + (1 - beta1) g;
// m = beta2 m + (1 - beta2) g;  p = p * decay - lr sign(c), where sign(0) = 0.
struct LionStep {
  float beta1, one_minus_beta1, beta2, one_minus_beta2, decay, lr, grad_scale;
};
void lion_step(const Stream& stream, const Tensor& p, const Tensor& grad, const Tensor& m,
               const LionStep& step, const Tensor& narrow = {});

// p = p * decay - lr * u.
void scaled_step(const Stream& stream, const Tensor& p, const Tensor& u, float decay, float lr,
                 const Tensor& narrow = {});

// With g = one_minus_momentum * (grad * grad_scale): buf = momentum buf + g, and over grad: buf, or with nesterov
// momentum buf + g.
void momentum_direction(const Stream& stream, const Tensor& grad, const Tensor& buf, float momentum,
                        float one_minus_momentum, float grad_scale, bool nesterov);

// average = decay * average + rest * p; p f32, bf16 or f16.
void average_step(const Stream& stream, const Tensor& average, const Tensor& p, float decay, float rest);

// x = min(max(x * factor, -limit), limit); NaN stays.
void scale_clamp_(const Stream& stream, const Tensor& x, float factor, float limit);

// out f64 [n / 256]: the sum of squares of each chunk of 256 elements of x [n] (n a multiple of 256), in FP64, in
// fixed lanes (R8). Finite exactly where all elements are: FP32's largest square, 1.2e77, times any number of elements
// is far from FP64's largest.
void chunk_sum_squares(const Stream& stream, const Tensor& x, const Tensor& out);

}  // namespace shoal::ops
