#pragma once
#include "kernels/common/isa.hpp"

namespace shoal::kernels {

struct AdafactorArgs {
  float grad_scale;
  double decay, rest, eps;
};

}  // namespace shoal::kernels

// sums and factors [rows + columns], to work in.
SHOAL_KERNEL(void adafactor_matrix(float* g, std::int64_t rows, std::int64_t columns, float* row_state,
                                   float* column_state, double* sums, float* factors,
                                   const AdafactorArgs& args))
SHOAL_KERNEL(void adafactor_vector(float* g, std::int64_t n, float* v, const AdafactorArgs& args))
