// Products of tiles that lie in the first-level caches: C (+)= A B, B and C with rows of vectors, A anywhere
// (an element is broadcast at a time, so A may be a transposed view at no cost). Each element of C is summed
// over k upward by fused multiply-adds, starting from C or from zero; how rows and columns are grouped
// changes nothing in it. The accumulators of a group stay in registers: 6 x 16 on AVX2 (12 of 16 registers, 8
// loads for 12 operations), 8 x 32 on AVX-512. Included only by kernels/cpu/*.cpp; everything has internal
// linkage.
#pragma once
#include "kernels/common/vec.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

#if defined(SHOAL_ISA_avx512)
constexpr int group_rows = 8, group_vectors = 2;
#else
constexpr int group_rows = 6, group_vectors = 1;
#endif
constexpr int64_t group_columns = group_vectors * lanes;

struct Left {  // element (i, k) at p[i * row + k * column]
  const float* p;
  int64_t row, column;
};

template <int R, int V>
SHOAL_INLINE void product_group(Left a, int64_t k, const float* b, int64_t ldb, float* c, int64_t ldc,
                                bool add) {
  vf acc[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) acc[r][v] = add ? load(c + r * ldc + v * lanes) : set1(0.0f);
  for (int64_t l = 0; l < k; ++l) {
    vf row[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) row[v] = load(b + l * ldb + v * lanes);
    const float* column = a.p + l * a.column;
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const vf x = set1(column[r * a.row]);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) acc[r][v] = fma(x, row[v], acc[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) store(c + r * ldc + v * lanes, acc[r][v]);
}

// rows x (16 V) of C. Groups of fewer than four rows wait for their own sums, so that what is left over is shared with the
// last whole group.
template <int V>
__attribute__((noinline)) void product_rows(int64_t rows, Left a, int64_t k, const float* b, int64_t ldb,
                                            float* c, int64_t ldc, bool add) {
  const auto step = [&]<int R>() {
    product_group<R, V>(a, k, b, ldb, c, ldc, add);
    a.p += R * a.row;
    c += R * ldc;
    rows -= R;
  };
  while (rows >= group_rows + 4 || rows == group_rows) step.template operator()<group_rows>();
  if (rows > group_rows) step.template operator()<4>();
  switch (rows) {
    case 1: return step.template operator()<1>();
    case 2: return step.template operator()<2>();
    case 3: return step.template operator()<3>();
    case 4: return step.template operator()<4>();
    case 5: return step.template operator()<5>();
    case 6: return step.template operator()<6>();
    case 7: return step.template operator()<7>();
    default: return;
  }
}

// rows x columns of C, columns a multiple of 16.
SHOAL_INLINE void small_product(int64_t rows, int64_t columns, int64_t k, Left a, const float* b, int64_t ldb,
                                float* c, int64_t ldc, bool add) {
  int64_t j = 0;
  for (; j + group_columns <= columns; j += group_columns)
    product_rows<group_vectors>(rows, a, k, b + j, ldb, c + j, ldc, add);
  for (; j < columns; j += lanes) product_rows<1>(rows, a, k, b + j, ldb, c + j, ldc, add);
}

}  // namespace
}  // namespace shoal::kernels::SHOAL_ISA
