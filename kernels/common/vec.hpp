// Sixteen FP32 lanes, the same on every instruction set: one AVX-512 register, two AVX2 registers, or an array.
// Kernels written with it do the same operations in the same order everywhere, so their bits do not depend on the
// instruction set, and tails go through the same instructions as the rest (docs/numerics.md, R9).
// Included only by kernels/cpu/*.cpp; everything has internal linkage.
#pragma once
#include <stdint.h>
#include <string.h>
#if defined(SHOAL_ISA_avx2) || defined(SHOAL_ISA_avx512)
#include <immintrin.h>
#endif

namespace shoal::kernels::SHOAL_ISA {
namespace {

constexpr int lanes = 16;
#define SHOAL_INLINE static inline __attribute__((always_inline))

#if defined(SHOAL_ISA_avx512)

struct vf {
  __m512 v;
};
struct vi {
  __m512i v;
};
struct vmask {
  __mmask16 v;
};
SHOAL_INLINE vf load(const float* p) { return {_mm512_loadu_ps(p)}; }
SHOAL_INLINE void store(float* p, vf a) { _mm512_storeu_ps(p, a.v); }
SHOAL_INLINE void stream(float* p, vf a) { _mm512_stream_ps(p, a.v); }  // aligned to 64 bytes
SHOAL_INLINE vi load(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
SHOAL_INLINE vi load(const uint32_t* p) { return {_mm512_loadu_si512(p)}; }
SHOAL_INLINE void store(int32_t* p, vi a) { _mm512_storeu_si512(p, a.v); }
SHOAL_INLINE vf set1(float x) { return {_mm512_set1_ps(x)}; }
SHOAL_INLINE vi seti(int32_t x) { return {_mm512_set1_epi32(x)}; }
SHOAL_INLINE vf operator+(vf a, vf b) { return {_mm512_add_ps(a.v, b.v)}; }
SHOAL_INLINE vf operator-(vf a, vf b) { return {_mm512_sub_ps(a.v, b.v)}; }
SHOAL_INLINE vf operator*(vf a, vf b) { return {_mm512_mul_ps(a.v, b.v)}; }
SHOAL_INLINE vf operator/(vf a, vf b) { return {_mm512_div_ps(a.v, b.v)}; }
SHOAL_INLINE vf fma(vf a, vf b, vf c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
SHOAL_INLINE vf vsqrt(vf a) { return {_mm512_sqrt_ps(a.v)}; }
// max and min return b when a is NaN or both are zero, on every instruction set.
SHOAL_INLINE vf max(vf a, vf b) { return {_mm512_max_ps(a.v, b.v)}; }
SHOAL_INLINE vf min(vf a, vf b) { return {_mm512_min_ps(a.v, b.v)}; }
SHOAL_INLINE vmask less(vf a, vf b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
SHOAL_INLINE vmask less_unsigned(vi a, vi b) { return {_mm512_cmplt_epu32_mask(a.v, b.v)}; }
SHOAL_INLINE vf select(vmask m, vf yes, vf no) { return {_mm512_mask_blend_ps(m.v, no.v, yes.v)}; }
SHOAL_INLINE vf round_nearest(vf a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
SHOAL_INLINE vi to_int(vf a) { return {_mm512_cvtps_epi32(a.v)}; }  // a integral and in range
SHOAL_INLINE vi operator+(vi a, vi b) { return {_mm512_add_epi32(a.v, b.v)}; }
SHOAL_INLINE vi operator-(vi a, vi b) { return {_mm512_sub_epi32(a.v, b.v)}; }
template <int n>
SHOAL_INLINE vi shift_left(vi a) {
  return {_mm512_slli_epi32(a.v, n)};
}
template <int n>
SHOAL_INLINE vi shift_right_signed(vi a) {
  return {_mm512_srai_epi32(a.v, n)};
}
SHOAL_INLINE vf as_float(vi a) { return {_mm512_castsi512_ps(a.v)}; }

#elif defined(SHOAL_ISA_avx2)

struct vf {
  __m256 a, b;
};
struct vi {
  __m256i a, b;
};
struct vmask {
  __m256 a, b;
};
SHOAL_INLINE vf load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
SHOAL_INLINE void store(float* p, vf x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
// Past the caches: p is aligned to 64 bytes, and stream_fence comes before another thread is told.
SHOAL_INLINE void stream(float* p, vf x) {
  _mm256_stream_ps(p, x.a);
  _mm256_stream_ps(p + 8, x.b);
}
SHOAL_INLINE vi load(const int32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
SHOAL_INLINE vi load(const uint32_t* p) { return load(reinterpret_cast<const int32_t*>(p)); }
SHOAL_INLINE void store(int32_t* p, vi x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), x.b);
}
SHOAL_INLINE vf set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
SHOAL_INLINE vi seti(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
SHOAL_INLINE vf operator+(vf x, vf y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
SHOAL_INLINE vf operator-(vf x, vf y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
SHOAL_INLINE vf operator*(vf x, vf y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
SHOAL_INLINE vf operator/(vf x, vf y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
SHOAL_INLINE vf fma(vf x, vf y, vf z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
SHOAL_INLINE vf vsqrt(vf x) { return {_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)}; }
SHOAL_INLINE vf max(vf x, vf y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
SHOAL_INLINE vf min(vf x, vf y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
SHOAL_INLINE vmask less(vf x, vf y) {
  return {_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)};
}
SHOAL_INLINE vmask less_unsigned(vi x, vi y) {
  const __m256i flip = _mm256_set1_epi32(INT32_MIN);
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_xor_si256(y.a, flip), _mm256_xor_si256(x.a, flip))),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_xor_si256(y.b, flip), _mm256_xor_si256(x.b, flip)))};
}
SHOAL_INLINE vf select(vmask m, vf yes, vf no) {
  return {_mm256_blendv_ps(no.a, yes.a, m.a), _mm256_blendv_ps(no.b, yes.b, m.b)};
}
SHOAL_INLINE vf round_nearest(vf x) {
  constexpr int mode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(x.a, mode), _mm256_round_ps(x.b, mode)};
}
SHOAL_INLINE vi to_int(vf x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
SHOAL_INLINE vi operator+(vi x, vi y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
SHOAL_INLINE vi operator-(vi x, vi y) { return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)}; }
template <int n>
SHOAL_INLINE vi shift_left(vi x) {
  return {_mm256_slli_epi32(x.a, n), _mm256_slli_epi32(x.b, n)};
}
template <int n>
SHOAL_INLINE vi shift_right_signed(vi x) {
  return {_mm256_srai_epi32(x.a, n), _mm256_srai_epi32(x.b, n)};
}
SHOAL_INLINE vf as_float(vi x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }

#else  // generic: arrays that the compiler vectorises as it can

struct vf {
  float v[16];
};
struct vi {
  int32_t v[16];
};
struct vmask {
  bool v[16];
};
#define SHOAL_LANES for (int i = 0; i < 16; ++i)
SHOAL_INLINE vf load(const float* p) {
  vf r;
  memcpy(r.v, p, sizeof r.v);
  return r;
}
SHOAL_INLINE void store(float* p, vf a) { memcpy(p, a.v, sizeof a.v); }
SHOAL_INLINE void stream(float* p, vf a) { store(p, a); }
SHOAL_INLINE vi load(const int32_t* p) {
  vi r;
  memcpy(r.v, p, sizeof r.v);
  return r;
}
SHOAL_INLINE vi load(const uint32_t* p) {
  vi r;
  memcpy(r.v, p, sizeof r.v);
  return r;
}
SHOAL_INLINE void store(int32_t* p, vi a) { memcpy(p, a.v, sizeof a.v); }
SHOAL_INLINE vf set1(float x) {
  vf r;
  SHOAL_LANES r.v[i] = x;
  return r;
}
SHOAL_INLINE vi seti(int32_t x) {
  vi r;
  SHOAL_LANES r.v[i] = x;
  return r;
}
SHOAL_INLINE vf operator+(vf a, vf b) {
  SHOAL_LANES a.v[i] = a.v[i] + b.v[i];
  return a;
}
SHOAL_INLINE vf operator-(vf a, vf b) {
  SHOAL_LANES a.v[i] = a.v[i] - b.v[i];
  return a;
}
SHOAL_INLINE vf operator*(vf a, vf b) {
  SHOAL_LANES a.v[i] = a.v[i] * b.v[i];
  return a;
}
SHOAL_INLINE vf operator/(vf a, vf b) {
  SHOAL_LANES a.v[i] = a.v[i] / b.v[i];
  return a;
}
SHOAL_INLINE vf fma(vf a, vf b, vf c) {
  SHOAL_LANES a.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]);
  return a;
}
SHOAL_INLINE vf vsqrt(vf a) {
  SHOAL_LANES a.v[i] = __builtin_sqrtf(a.v[i]);
  return a;
}
SHOAL_INLINE vf max(vf a, vf b) {
  SHOAL_LANES a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
  return a;
}
SHOAL_INLINE vf min(vf a, vf b) {
  SHOAL_LANES a.v[i] = a.v[i] < b.v[i] ? a.v[i] : b.v[i];
  return a;
}
SHOAL_INLINE vmask less(vf a, vf b) {
  vmask m;
  SHOAL_LANES m.v[i] = a.v[i] < b.v[i];
  return m;
}
SHOAL_INLINE vmask less_unsigned(vi a, vi b) {
  vmask m;
  SHOAL_LANES m.v[i] = static_cast<uint32_t>(a.v[i]) < static_cast<uint32_t>(b.v[i]);
  return m;
}
SHOAL_INLINE vf select(vmask m, vf yes, vf no) {
  SHOAL_LANES yes.v[i] = m.v[i] ? yes.v[i] : no.v[i];
  return yes;
}
SHOAL_INLINE vf round_nearest(vf a) {
  SHOAL_LANES a.v[i] = __builtin_rintf(a.v[i]);
  return a;
}
SHOAL_INLINE vi to_int(vf a) {
  vi r;
  SHOAL_LANES r.v[i] = static_cast<int32_t>(a.v[i]);
  return r;
}
SHOAL_INLINE vi operator+(vi a, vi b) {
  SHOAL_LANES a.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) + static_cast<uint32_t>(b.v[i]));
  return a;
}
SHOAL_INLINE vi operator-(vi a, vi b) {
  SHOAL_LANES a.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) - static_cast<uint32_t>(b.v[i]));
  return a;
}
template <int n>
SHOAL_INLINE vi shift_left(vi a) {
  SHOAL_LANES a.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) << n);
  return a;
}
template <int n>
SHOAL_INLINE vi shift_right_signed(vi a) {
  SHOAL_LANES a.v[i] = a.v[i] >> n;
  return a;
}
SHOAL_INLINE vf as_float(vi a) {
  vf r;
  memcpy(r.v, a.v, sizeof r.v);
  return r;
}
#undef SHOAL_LANES

#endif

SHOAL_INLINE void stream_fence() {
#if defined(SHOAL_ISA_avx2) || defined(SHOAL_ISA_avx512)
  _mm_sfence();
#endif
}

// The first n < 16 lanes; the rest read as `fill` and are not written.
SHOAL_INLINE vf load_partial(const float* p, int64_t n, float fill = 0.0f) {
  float t[lanes];
  for (int i = 0; i < lanes; ++i) t[i] = i < n ? p[i] : fill;
  return load(t);
}
SHOAL_INLINE void store_partial(float* p, vf a, int64_t n) {
  float t[lanes];
  store(t, a);
  for (int i = 0; i < n; ++i) p[i] = t[i];
}

// Lanes are summed by halves: i + (i+8), then + 4, + 2, + 1.
SHOAL_INLINE float sum_lanes(vf x) {
#if defined(SHOAL_ISA_avx2) || defined(SHOAL_ISA_avx512)
#if defined(SHOAL_ISA_avx512)
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
#else
  const __m256 eight = _mm256_add_ps(x.a, x.b);
#endif
  __m128 t = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  t = _mm_add_ps(t, _mm_movehl_ps(t, t));
  return _mm_cvtss_f32(_mm_add_ss(t, _mm_movehdup_ps(t)));
#else
  float t[lanes];
  store(t, x);
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) t[i] = t[i] + t[i + half];
  return t[0];
#endif
}
SHOAL_INLINE float max_lanes(vf a) {
  float t[lanes];
  store(t, a);
  float m = t[0];
  for (int i = 1; i < lanes; ++i) m = t[i] > m ? t[i] : m;
  return m;
}

// e^x within 1 ulp or so: x = n ln 2 + r, |r| <= ln 2 / 2 (Cody and Waite), a degree-6 polynomial for e^r, and
// the scaling by 2^n in two factors, so that results below the normal range come out gradually.
SHOAL_INLINE vf vexp(vf x) {
  // NaN passes: max and min return their second operand then.
  x = min(set1(89.0f), max(set1(-104.0f), x));
  const vf n = round_nearest(x * set1(1.44269504088896341f));
  vf r = fma(n, set1(-0.693359375f), x);
  r = fma(n, set1(2.12194440e-4f), r);
  vf p = set1(1.9875691500e-4f);
  p = fma(p, r, set1(1.3981999507e-3f));
  p = fma(p, r, set1(8.3334519073e-3f));
  p = fma(p, r, set1(4.1665795894e-2f));
  p = fma(p, r, set1(1.6666665459e-1f));
  p = fma(p, r, set1(5.0000001201e-1f));
  p = fma(p, r * r, r) + set1(1.0f);
  const vi whole = to_int(n);
  const vi half = shift_right_signed<1>(whole);
  const vf a = as_float(shift_left<23>(half + seti(127)));
  const vf b = as_float(shift_left<23>((whole - half) + seti(127)));
  return (p * a) * b;
}

// 1 / (1 + e^-x).
SHOAL_INLINE vf vsigmoid(vf x) { return set1(1.0f) / (set1(1.0f) + vexp(set1(0.0f) - x)); }

// GELU(x) = x / 2 (1 + tanh u) = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
SHOAL_INLINE vf vgelu(vf x) {
  const vf inner = fma(x * x, set1(0.044715f), set1(1.0f)) * x;
  return x * vsigmoid(set1(1.5957691216057308f) * inner);
}
// d GELU / dx = s + x s (1 - s) 2 u', s = sigmoid(2 u).
SHOAL_INLINE vf vgelu_derivative(vf x) {
  const vf xx = x * x;
  const vf inner = fma(xx, set1(0.044715f), set1(1.0f)) * x;
  const vf s = vsigmoid(set1(1.5957691216057308f) * inner);
  const vf du = set1(1.5957691216057308f) * fma(xx, set1(0.134145f), set1(1.0f));
  return fma(x * (s * (set1(1.0f) - s)), du, s);
}

}  // namespace
}  // namespace shoal::kernels::SHOAL_ISA
