// Arrays of FP32, BF16 and FP16 numbers, sixteen at a time, in their own order: what a kernel computes is FP32, how its
// arrays are stored is a type. Loads are exact; a store rounds once, to nearest even (NaN stays NaN, above the largest
// becomes infinity), so that a kernel's rounding point is its store (docs/numerics.md, R7). Included only by
// kernels/cpu/*.cpp; everything has internal linkage.
#pragma once
#include "kernels/common/half.hpp"
#include "kernels/common/storage_code.hpp"
#include "kernels/common/vec.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};

#if defined(SHOAL_ISA_avx512)

SHOAL_INLINE vf load(const bf16* p) {
  const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16))};
}
// The upper half of each lane is x rounded.
SHOAL_INLINE __m512i raised_bf16(vf x) {
  const __m512i u = _mm512_castps_si512(x.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const __m512i raised = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __mmask16 nan = _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(raised, nan, u, _mm512_set1_epi32(0x400000));
}
SHOAL_INLINE void store(bf16* p, vf x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtepi32_epi16(_mm512_srli_epi32(raised_bf16(x), 16)));
}
SHOAL_INLINE vf load(const f16* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
SHOAL_INLINE void store(f16* p, vf x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#elif defined(SHOAL_ISA_avx2)

SHOAL_INLINE __m256 widened_bf16(const bf16* p) {
  const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
SHOAL_INLINE vf load(const bf16* p) { return {widened_bf16(p), widened_bf16(p + 8)}; }
SHOAL_INLINE __m256i raised_bf16(__m256 x) {
  const __m256i u = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  return _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
}
SHOAL_INLINE __m256i quiet_nans(__m256i raised, __m256 x) {
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(raised, _mm256_or_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x400000)),
                            nan);
}
// The upper half of each lane is x rounded. One comparison finds a NaN in either register; there hardly ever is one.
SHOAL_INLINE vi raised_bf16(vf x) {
  vi r{raised_bf16(x.a), raised_bf16(x.b)};
  if (__builtin_expect(_mm256_movemask_ps(_mm256_cmp_ps(x.a, x.b, _CMP_UNORD_Q)) != 0, 0))
    r = {quiet_nans(r.a, x.a), quiet_nans(r.b, x.b)};
  return r;
}
SHOAL_INLINE void store(bf16* p, vf x) {
  const vi r = raised_bf16(x);
  const __m256i both =
      _mm256_packus_epi32(_mm256_srli_epi32(r.a, 16), _mm256_srli_epi32(r.b, 16));  // by 128-bit halves
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(both, 0xd8));
}
SHOAL_INLINE vf load(const f16* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
SHOAL_INLINE void store(f16* p, vf x) {
  constexpr int mode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.a, mode));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(x.b, mode));
}

#else

SHOAL_INLINE vf load(const bf16* p) {
  vf x;
  bf16_to_f32(&p->bits, x.v, lanes);
  return x;
}
SHOAL_INLINE void store(bf16* p, vf x) { f32_to_bf16(x.v, &p->bits, lanes); }
SHOAL_INLINE vf load(const f16* p) {
  vf x;
  f16_to_f32(&p->bits, x.v, lanes);
  return x;
}
SHOAL_INLINE void store(f16* p, vf x) { f32_to_f16(x.v, &p->bits, lanes); }

#endif

// The first n < 16 lanes, as in vec.hpp.
template <class T>
SHOAL_INLINE vf load_partial(const T* p, int64_t n, float fill = 0.0f) {
  T t[lanes] = {};
  memcpy(t, p, sizeof(T) * static_cast<size_t>(n));
  float x[lanes];
  store(x, load(t));
  for (int i = 0; i < lanes; ++i) x[i] = i < n ? x[i] : fill;
  return load(x);
}
template <class T>
SHOAL_INLINE void store_partial(T* p, vf a, int64_t n) {
  T t[lanes];
  store(t, a);
  memcpy(p, t, sizeof(T) * static_cast<size_t>(n));
}

// x as it reads back from an array of T.
template <class T>
SHOAL_INLINE vf rounded(vf x) {
  T t[lanes];
  store(t, x);
  return load(t);
}
template <>
inline __attribute__((always_inline)) vf rounded<float>(vf x) {
  return x;
}
#if defined(SHOAL_ISA_avx512)
template <>
inline __attribute__((always_inline)) vf rounded<bf16>(vf x) {
  return {_mm512_castsi512_ps(_mm512_and_si512(raised_bf16(x), _mm512_set1_epi32(-65536)))};
}
template <>
inline __attribute__((always_inline)) vf rounded<f16>(vf x) {
  return {_mm512_cvtph_ps(_mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))};
}
#elif defined(SHOAL_ISA_avx2)
template <>
inline __attribute__((always_inline)) vf rounded<bf16>(vf x) {
  const vi r = raised_bf16(x);
  const __m256i upper = _mm256_set1_epi32(-65536);
  return {_mm256_castsi256_ps(_mm256_and_si256(r.a, upper)),
          _mm256_castsi256_ps(_mm256_and_si256(r.b, upper))};
}
template <>
inline __attribute__((always_inline)) vf rounded<f16>(vf x) {
  constexpr int mode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_cvtph_ps(_mm256_cvtps_ph(x.a, mode)), _mm256_cvtph_ps(_mm256_cvtps_ph(x.b, mode))};
}
#endif

// f(T*(nullptr)) for the element type that a code names.
template <class F>
SHOAL_INLINE auto with_storage(Storage code, const F& f) {
  switch (code) {
    case Storage::bf16: return f(static_cast<bf16*>(nullptr));
    case Storage::f16: return f(static_cast<f16*>(nullptr));
    case Storage::f32: break;
  }
  return f(static_cast<float*>(nullptr));
}

}  // namespace
}  // namespace shoal::kernels::SHOAL_ISA
