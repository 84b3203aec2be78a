// How a matrix product is cut into single-thread calls: a function of (M, N, K) alone, so that neither the
// thread count nor the number of pieces a rank owns can change a bit (docs/numerics.md, R2).
#pragma once
#include <stdint.h>

namespace shoal::kernels {

struct MatmulPlan {
  int64_t m, n, k;  // the largest tile: one call multiplies at most m x k by k x n
  bool packed;      // operands are copied into aligned, padded tiles first
};

// The nearest equal parts of n, none above `most`, in multiples of `multiple`.
static constexpr int64_t equal_part(int64_t n, int64_t most, int64_t multiple) {
  if (n <= most) return n < 1 ? 1 : n;
  const int64_t parts = (n + most - 1) / most;
  const int64_t part = (n + parts - 1) / parts;
  return (part + multiple - 1) / multiple * multiple;
}

constexpr int64_t matmul_pad =
    16;  // floats after each row of a packed tile: no two rows fall in one cache set
constexpr int64_t matmul_direct_row =
    384;  // floats a row of a right operand that is used where it lies, at most
constexpr int64_t matmul_max_m = 64, matmul_max_n = 384, matmul_max_k = 384;

// A packed right operand of 384 x 384 takes 600 KB and is used for many row tiles; a left one of 64 x 384
// takes 100 KB: both stay in a 1 MB second-level cache. With fewer rows than the copy is worth, nothing is
// packed.
static constexpr MatmulPlan matmul_plan(int64_t m, int64_t n, int64_t k) {
  if (m < 16) return {m < 1 ? 1 : m, equal_part(n, 256, 16), k, false};
  const int64_t n_tile = equal_part(n, matmul_max_n, 16);
  const int64_t n_tiles = (n + n_tile - 1) / n_tile;
  return {m * n_tiles >= 1024 ? matmul_max_m : matmul_max_m / 2, n_tile, equal_part(k, matmul_max_k, 16),
          true};
}

// Operands or results of 16 bits are always packed, into FP32 tiles, whatever M is.
static constexpr MatmulPlan matmul_half_plan(int64_t m, int64_t n, int64_t k) {
  const int64_t n_tile = equal_part(n, matmul_max_n, 16), n_tiles = (n + n_tile - 1) / n_tile;
  const int64_t most = m * n_tiles >= 1024 ? matmul_max_m : matmul_max_m / 2;
  return {m < most ? (m < 1 ? 1 : m) : most, n_tile, equal_part(k, matmul_max_k, 16), true};
}

// Rows of C that a packed tile of B serves where C is kept in scratch until it is summed and rounded: 1.6 MB of it.
constexpr int64_t matmul_group_rows = 1024;

// Floats of scratch that a thread needs for a packed product, and beyond it for such rows of C.
constexpr int64_t matmul_scratch =
    matmul_max_k * (matmul_max_n + matmul_pad) + matmul_max_m * (matmul_max_k + matmul_pad);
constexpr int64_t matmul_group_scratch = matmul_group_rows * (matmul_max_n + matmul_pad);

}  // namespace shoal::kernels
