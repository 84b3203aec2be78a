#pragma once
#include "kernels/common/isa.hpp"

namespace shoal::kernels {

struct NormForward {
  const float *x, *weight, *bias;  // bias null for RMS norm
  float eps;
  float *y, *mean, *rstd;  // mean null for RMS norm
  int64_t rows, hidden;
};

struct NormBackward {
  const float *dy, *x, *weight, *mean, *rstd;  // mean null for RMS norm
  const float* dres;                           // null: none
  float* dx;
  float *dweight, *dbias;  // [shards, hidden]; dbias null for RMS norm
  float* partial;          // [shards * norm_blocks(rows / shards), 2 (RMS norm: 1), hidden], to work in
  int64_t rows, hidden, shards;
  bool accumulate;
};

inline constexpr int64_t norm_block_rows = 64;
constexpr int64_t norm_blocks(int64_t rows) { return (rows + norm_block_rows - 1) / norm_block_rows; }

}  // namespace shoal::kernels

SHOAL_KERNEL(void layer_norm_forward(const NormForward& args))
SHOAL_KERNEL(void layer_norm_backward(const NormBackward& args))
SHOAL_KERNEL(void rms_norm_forward(const NormForward& args))
SHOAL_KERNEL(void rms_norm_backward(const NormBackward& args))
