// Layer norm (Ba, Kiros, Hinton 2016) and RMS norm (Zhang, Sennrich 2019) over the last dimension.
// Statistics are FP32; sums of a row are in 16 fixed lanes (docs/numerics.md).
//
// Types: x, y, dy, dres and dx are of one training type T (f32, bf16, f16), weight and bias of one of their own;
// mean, rstd and the gradients of weight and bias are f32. Computed in FP32; y and dx are rounded once.
#pragma once
#include <cstdint>

#include "shoal/core/tensor.hpp"

namespace shoal::ops {

// x, y [M, H]; weight, bias [H]; mean, rstd [M] are written for the backward pass.
void layer_norm_forward(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                        float eps, const Tensor& y, const Tensor& mean, const Tensor& rstd);
// dx [M, H] = gradient (+ dres, when defined: the gradient that bypasses the norm; dx may be dres or dy).
// dweight, dbias [S, H] (+)= sums over token shard s, rows [s M/S, (s+1) M/S): blocks of 64 rows, then the tree.
void layer_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& weight,
                         const Tensor& mean, const Tensor& rstd, const Tensor& dres, const Tensor& dx,
                         const Tensor& dweight, const Tensor& dbias, bool accumulate);

void rms_norm_forward(const Stream& stream, const Tensor& x, const Tensor& weight, float eps, const Tensor& y,
                      const Tensor& rstd);
void rms_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& weight,
                       const Tensor& rstd, const Tensor& dres, const Tensor& dx, const Tensor& dweight,
                       bool accumulate);

// Elements that the backward pass takes from the stream's allocator while it runs, for one token shard of so many
// rows; for the prediction of memory.
std::int64_t norm_backward_scratch(std::int64_t rows, std::int64_t hidden, bool bias);

}  // namespace shoal::ops
