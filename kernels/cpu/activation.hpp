#pragma once
#include "kernels/common/isa.hpp"

SHOAL_KERNEL(void gelu_forward(const float* x, float* y, std::int64_t n))
SHOAL_KERNEL(void gelu_backward(const float* dy, const float* x, float* dx, std::int64_t n))
SHOAL_KERNEL(void swiglu_forward(const float* gate_up, float* y, std::int64_t rows, std::int64_t columns))
SHOAL_KERNEL(void swiglu_backward(const float* dy, const float* gate_up, float* d_gate_up, std::int64_t rows,
                                  std::int64_t columns))
