// Copies of matrix tiles, straight and transposed. A transposing copy reads whole cache lines (8 rows x 16
// columns) because the source's rows are often a power of two apart, where each extra visit of a line is a
// cache miss. Sources may be stored in 16 bits: tiles are always FP32. Included only by kernels/cpu/*.cpp; everything
// has internal linkage.
#pragma once
#include "kernels/common/storage.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

// dst[r][c] = src[r][c]
SHOAL_INLINE void pack_rows(const float* src, int64_t lds, int64_t rows, int64_t cols, float* dst,
                            int64_t ldd) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* s = src + r * lds;
    float* d = dst + r * ldd;
    int64_t c = 0;
    for (; c + lanes <= cols; c += lanes) store(d + c, load(s + c));
    for (; c < cols; ++c) d[c] = s[c];
  }
}

#if defined(SHOAL_ISA_avx2) || defined(SHOAL_ISA_avx512)
// Eight rows of eight, transposed in registers.
SHOAL_INLINE void transpose8(const float* src, int64_t lds, float* dst, int64_t ldd) {
  __m256 r[8], t[8];
  for (int i = 0; i < 4; ++i) {  // halves of rows i and i + 4 side by side
    r[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(src + i * lds)),
                                _mm_loadu_ps(src + (i + 4) * lds), 1);
    r[i + 4] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(src + i * lds + 4)),
                                    _mm_loadu_ps(src + (i + 4) * lds + 4), 1);
  }
  for (int h = 0; h < 8; h += 4) {
    t[h + 0] = _mm256_unpacklo_ps(r[h + 0], r[h + 1]);
    t[h + 1] = _mm256_unpackhi_ps(r[h + 0], r[h + 1]);
    t[h + 2] = _mm256_unpacklo_ps(r[h + 2], r[h + 3]);
    t[h + 3] = _mm256_unpackhi_ps(r[h + 2], r[h + 3]);
    _mm256_storeu_ps(dst + (h + 0) * ldd, _mm256_shuffle_ps(t[h + 0], t[h + 2], 0x44));
    _mm256_storeu_ps(dst + (h + 1) * ldd, _mm256_shuffle_ps(t[h + 0], t[h + 2], 0xEE));
    _mm256_storeu_ps(dst + (h + 2) * ldd, _mm256_shuffle_ps(t[h + 1], t[h + 3], 0x44));
    _mm256_storeu_ps(dst + (h + 3) * ldd, _mm256_shuffle_ps(t[h + 1], t[h + 3], 0xEE));
  }
}
#else
SHOAL_INLINE void transpose8(const float* src, int64_t lds, float* dst, int64_t ldd) {
  for (int r = 0; r < 8; ++r)
    for (int c = 0; c < 8; ++c) dst[c * ldd + r] = src[r * lds + c];
}
#endif

// dst[c][r] = src[r][c]
SHOAL_INLINE void pack_transposed(const float* src, int64_t lds, int64_t rows, int64_t cols, float* dst,
                                  int64_t ldd) {
  const int64_t whole = rows & ~int64_t{7};
  for (int64_t r = 0; r < whole; r += 8) {
    const float* s = src + r * lds;
    float* d = dst + r;
    int64_t c = 0;
    for (; c + 16 <= cols; c += 16) {
      transpose8(s + c, lds, d + c * ldd, ldd);
      transpose8(s + c + 8, lds, d + (c + 8) * ldd, ldd);
    }
    for (; c < cols; ++c)
      for (int i = 0; i < 8; ++i) d[c * ldd + i] = s[i * lds + c];
  }
  for (int64_t r = whole; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) dst[c * ldd + r] = src[r * lds + c];
}

// As R reads it: a wider source is rounded to R first.
template <class R, class T>
SHOAL_INLINE vf load_as(const T* p) {
  if constexpr (sizeof(T) > sizeof(R)) return rounded<R>(load(p));
  return load(p);
}
template <class R, class T>
SHOAL_INLINE vf load_as(const T* p, int64_t n) {
  if constexpr (sizeof(T) > sizeof(R)) return rounded<R>(load_partial(p, n));
  return load_partial(p, n);
}

// dst[r][c] = src[r][c] as R reads it.
template <class R, class T>
SHOAL_INLINE void pack_rows_as(const T* src, int64_t lds, int64_t rows, int64_t cols, float* dst,
                               int64_t ldd) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* s = src + r * lds;
    float* d = dst + r * ldd;
    int64_t c = 0;
    for (; c + lanes <= cols; c += lanes) store(d + c, load_as<R>(s + c));
    if (c < cols) store_partial(d + c, load_as<R>(s + c, cols - c), cols - c);
  }
}

// dst[c][r] = src[r][c] as R reads it: eight rows at a time are widened to where they are transposed from.
template <class R, class T>
SHOAL_INLINE void pack_transposed_as(const T* src, int64_t lds, int64_t rows, int64_t cols, float* dst,
                                     int64_t ldd) {
  constexpr int64_t strip = 64, row = strip + lanes;
  float wide[8 * row];
  for (int64_t r = 0; r < rows; r += 8)
    for (int64_t c = 0; c < cols; c += strip) {
      const int64_t height = rows - r < 8 ? rows - r : 8, width = cols - c < strip ? cols - c : strip;
      pack_rows_as<R>(src + r * lds + c, lds, height, width, wide, row);
      pack_transposed(wide, row, height, width, dst + c * ldd + r, ldd);
    }
}

}  // namespace
}  // namespace shoal::kernels::SHOAL_ISA
