#pragma once
#include "kernels/common/isa.hpp"
#include "kernels/common/storage_code.hpp"

namespace shoal::kernels {

// What an update changes: FP32 numbers, and (where not null) the same rounded to `type`.
struct Target {
  float* p;
  void* narrow;
  Storage type;
};

// ops::AdamWStep and the other steps of ops as plain numbers.
struct AdamWArgs {
  float beta1, one_minus_beta1, beta2, one_minus_beta2, decay, step_size, inv_sqrt_bias2, eps, grad_scale,
      weight_decay;
};
struct SgdArgs {
  float lr, momentum, weight_decay, grad_scale;
  bool nesterov, first;
};
struct LionArgs {
  float beta1, one_minus_beta1, beta2, one_minus_beta2, decay, lr, grad_scale;
};

}  // namespace shoal::kernels

SHOAL_KERNEL(void adamw_step(const Target& to, const float* grad, float* m, float* v, std::int64_t n,
                             const AdamWArgs& args))
// buf may be null: no momentum.
SHOAL_KERNEL(void sgd_step(const Target& to, const float* grad, float* buf, std::int64_t n,
                           const SgdArgs& args))
SHOAL_KERNEL(void lion_step(const Target& to, const float* grad, float* m, std::int64_t n,
                            const LionArgs& args))
// p = p * decay - lr * u
SHOAL_KERNEL(void scaled_step(const Target& to, const float* u, std::int64_t n, float decay, float lr))
// Directions, written over the gradient.
SHOAL_KERNEL(void adam_direction(const void* p, Storage type, float* grad, float* m, float* v, std::int64_t n,
                                 const AdamWArgs& args))
SHOAL_KERNEL(void momentum_direction(float* grad, float* buf, std::int64_t n, float momentum,
                                     float one_minus_momentum, float grad_scale, bool nesterov))
// average = decay * average + rest * p, p of `type`.
SHOAL_KERNEL(void average_step(float* average, const void* p, Storage type, std::int64_t n, float decay,
                               float rest))
// x = min(max(x * factor, -limit), limit)
SHOAL_KERNEL(void scale_clamp(float* x, std::int64_t n, float factor, float limit))
SHOAL_KERNEL(void chunk_sum_squares(const float* x, double* out, std::int64_t chunks))
