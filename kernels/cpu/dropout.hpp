#pragma once
#include "kernels/common/isa.hpp"
#include "kernels/common/random_args.hpp"

// y = dropout(x), n elements; the backward pass is the same map.
SHOAL_KERNEL(void dropout(const float* x, float* y, std::int64_t n, const DropoutArgs& args))
// y = x + dropout(z + bias), bias [hidden] or null.
SHOAL_KERNEL(void residual_forward(const float* x, const float* z, const float* bias, float* y,
                                   std::int64_t rows, std::int64_t hidden, const DropoutArgs& args))
// y += x;  x *= factor.
SHOAL_KERNEL(void add(float* y, const float* x, std::int64_t n))
SHOAL_KERNEL(void scale(float* x, float factor, std::int64_t n))
