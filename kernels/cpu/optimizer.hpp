#pragma once
#include "kernels/common/isa.hpp"

namespace shoal::kernels {

// ops::AdamWStep and ops::SgdStep as plain numbers.
struct AdamWArgs {
  float beta1, one_minus_beta1, beta2, one_minus_beta2, decay, step_size, inv_sqrt_bias2, eps, grad_scale;
};
struct SgdArgs {
  float lr, momentum, weight_decay, grad_scale;
  bool nesterov, first;
};

}  // namespace shoal::kernels

SHOAL_KERNEL(void adamw_step(float* p, const float* grad, float* m, float* v, std::int64_t n,
                             const AdamWArgs& args))
// buf may be null: no momentum.
SHOAL_KERNEL(void sgd_step(float* p, const float* grad, float* buf, std::int64_t n, const SgdArgs& args))
SHOAL_KERNEL(void chunk_sum_squares(const float* x, double* out, std::int64_t chunks))
