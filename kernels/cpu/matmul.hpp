#pragma once
#include "kernels/common/isa.hpp"
#include "kernels/common/storage_code.hpp"

namespace shoal::kernels {

// C[p] = op(A[p]) op(B[p]) (+ C[p]), op(A) [m, k], op(B) [k, n], all rows dense; then, while a tile is in
// cache:
//   bias:        C += bias[p][n]
//   gelu_out:    gelu_out = gelu(C), C = gelu'(C)
//   factor:      C *= factor
// A and B are rounded to `product` where they are wider; sums are FP32; a C of 16 bits, which cannot accumulate, is
// rounded at the end of all that.
struct MatmulArgs {
  std::int64_t pieces, m, n, k;
  bool transpose_a, transpose_b, accumulate;
  Storage product, a_type, b_type, c_type, bias_type;
  const void* a;
  std::int64_t a_piece;  // elements from one piece to the next; 0: shared
  const void* b;
  std::int64_t b_piece;
  void* c;
  std::int64_t c_piece;
  const void* bias;  // n elements a piece
  std::int64_t bias_piece;
  void* gelu_out;  // this and the next lie like c, and are of its type
  const void* factor;
};

}  // namespace shoal::kernels

// Zero, or the matrix library's error code (-1: no memory).
SHOAL_KERNEL(int matmul(const MatmulArgs& args))
