#pragma once
#include "kernels/common/isa.hpp"
#include "kernels/common/storage_code.hpp"

namespace shoal::kernels {

struct NormForward {
  Storage type, parameters;       // of x and y; of weight and bias
  const void *x, *weight, *bias;  // bias null for RMS norm
  float eps;
  void* y;
  float *mean, *rstd;  // mean null for RMS norm
  int64_t rows, hidden;
};

struct NormBackward {
  Storage type, parameters;  // of dy, x, dres and dx; of weight
  const void *dy, *x, *weight;
  const float *mean, *rstd;  // mean null for RMS norm
  const void* dres;          // null: none
  void* dx;
  float *dweight, *dbias;  // [shards, hidden]; dbias null for RMS norm
  float* partial;          // [shards * norm_blocks(rows / shards), 2 (RMS norm: 1), hidden], to work in
  int64_t rows, hidden, shards;
  bool accumulate;
};

inline constexpr int64_t norm_block_rows = 64;
constexpr int64_t norm_blocks(int64_t rows) { return (rows + norm_block_rows - 1) / norm_block_rows; }

}  // namespace shoal::kernels

// Zero, or -1: no memory to widen the parameters in.
SHOAL_KERNEL(int layer_norm_forward(const NormForward& args))
SHOAL_KERNEL(int layer_norm_backward(const NormBackward& args))
SHOAL_KERNEL(int rms_norm_forward(const NormForward& args))
SHOAL_KERNEL(int rms_norm_backward(const NormBackward& args))
