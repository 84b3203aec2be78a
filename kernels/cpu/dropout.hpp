#pragma once
#include "kernels/common/isa.hpp"
#include "kernels/common/random_args.hpp"
#include "kernels/common/storage_code.hpp"

namespace shoal::kernels {

// y = x + dropout(z + bias), x and y of `type`, z + bias rounded to it first; z and bias of types of their own.
struct ResidualArgs {
  Storage type, z_type, bias_type;
  const void *x, *z, *bias;  // bias [hidden] or null
  void* y;
  std::int64_t rows, hidden;
  DropoutArgs dropout;
};

}  // namespace shoal::kernels

// y = dropout(x), n elements of one type; the backward pass is the same map.
SHOAL_KERNEL(void dropout(Storage type, const void* x, void* y, std::int64_t n, const DropoutArgs& args))
// Zero, or -1: no memory to widen the bias in.
SHOAL_KERNEL(int residual_forward(const ResidualArgs& args))
// y += x;  x *= factor.
SHOAL_KERNEL(void add(float* y, const float* x, std::int64_t n))
SHOAL_KERNEL(void scale(float* x, float factor, std::int64_t n))
