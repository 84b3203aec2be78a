#pragma once
#include "kernels/common/isa.hpp"

namespace shoal::kernels {

// C[p] = op(A[p]) op(B[p]) (+ C[p]), op(A) [m, k], op(B) [k, n], all rows dense; then, while a tile is in
// cache:
//   bias:        C += bias[p][n]
//   gelu_out:    gelu_out = gelu(C), C = gelu'(C)
//   factor:      C *= factor
struct MatmulArgs {
  std::int64_t pieces, m, n, k;
  bool transpose_a, transpose_b, accumulate;
  const float* a;
  std::int64_t a_piece;  // floats from one piece to the next; 0: shared
  const float* b;
  std::int64_t b_piece;
  float* c;
  std::int64_t c_piece;
  const float* bias;  // n floats a piece
  std::int64_t bias_piece;
  float* gelu_out;  // this and the next lie like c
  const float* factor;
};

}  // namespace shoal::kernels

// Zero, or the matrix library's error code (-1: no memory).
SHOAL_KERNEL(int matmul(const MatmulArgs& args))
