// Sixteen elements between memory and registers, by how they are stored. They may lie in a register in another order
// than in memory, the same for all vectors of one kind. Included only by kernels/cpu/*.cpp; everything has internal
// linkage.
#pragma once
#include "kernels/common/half.hpp"
#include "kernels/common/vec.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

struct InF32 {
  using Stored = float;
  using Packed = vf;
  static inline __attribute__((always_inline)) vf get(const float* p) { return load(p); }
  static inline __attribute__((always_inline)) Packed pack(vf x) { return x; }
  static inline __attribute__((always_inline)) void put(float* p, Packed x) { store(p, x); }
  static inline __attribute__((always_inline)) void put_past_caches(float* p, Packed x) { stream(p, x); }
};

struct InBF16 {
  using Stored = uint16_t;
#if defined(SHOAL_ISA_avx2) || defined(SHOAL_ISA_avx512)
  using Packed = __m256i;
  static inline __attribute__((always_inline)) void put(uint16_t* p, Packed x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x);
  }
  static inline __attribute__((always_inline)) void put_past_caches(uint16_t* p, Packed x) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(p), x);
  }
#if defined(SHOAL_ISA_avx512)
  static inline __attribute__((always_inline)) vf get(const uint16_t* p) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16))};
  }
  static inline __attribute__((always_inline)) Packed pack(vf x) {
    const __m512i u = _mm512_castps_si512(x.v), upper = _mm512_srli_epi32(u, 16);
    const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_srli_epi32(_mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(
        _mm512_mask_blend_epi32(nan, rounded, _mm512_or_si512(upper, _mm512_set1_epi32(0x40))));
  }
#else
  // Even elements in a, odd ones in b: no instruction crosses lanes, and the upper halves need no shift.
  static inline __attribute__((always_inline)) vf get(const uint16_t* p) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(x, 16)),
            _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32(static_cast<int>(0xffff0000))))};
  }
  // To nearest even, in the upper half; the lower is whatever is left.
  static inline __attribute__((always_inline)) __m256i rounded(__m256i u) {
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
  }
  static inline __attribute__((always_inline)) __m256i quiet(__m256 x, __m256i r, __m256 nan) {
    const __m256i q = _mm256_or_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x400000));
    return _mm256_blendv_epi8(r, q, _mm256_castps_si256(nan));
  }
  static inline __attribute__((always_inline)) Packed pack(vf x) {
    __m256i even = rounded(_mm256_castps_si256(x.a)), odd = rounded(_mm256_castps_si256(x.b));
    const __m256 nan_a = _mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q), nan_b = _mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q);
    const __m256i any = _mm256_castps_si256(_mm256_or_ps(nan_a, nan_b));
    if (__builtin_expect(!_mm256_testz_si256(any, any), 0)) {
      even = quiet(x.a, even, nan_a);
      odd = quiet(x.b, odd, nan_b);
    }
    return _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xaa);
  }
#endif
#else
  struct Packed {
    uint16_t v[lanes];
  };
  static inline __attribute__((always_inline)) vf get(const uint16_t* p) {
    vf x;
    bf16_to_f32(p, x.v, lanes);
    return x;
  }
  static inline __attribute__((always_inline)) Packed pack(vf x) {
    Packed r;
    f32_to_bf16(x.v, r.v, lanes);
    return r;
  }
  static inline __attribute__((always_inline)) void put(uint16_t* p, Packed x) { memcpy(p, x.v, sizeof x.v); }
  static inline __attribute__((always_inline)) void put_past_caches(uint16_t* p, Packed x) { put(p, x); }
#endif
};

}  // namespace
}  // namespace shoal::kernels::SHOAL_ISA
