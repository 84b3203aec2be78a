// 16-bit floats to and from FP32, in runs. Rounding is to nearest even; NaN stays NaN. Included only by
// kernels/cpu/*.cpp; everything has internal linkage.
#pragma once
#include <stdint.h>
#include <string.h>
#if defined(SHOAL_ISA_avx2) || defined(SHOAL_ISA_avx512)
#include <immintrin.h>
#endif

namespace shoal::kernels::SHOAL_ISA {
namespace {

// bf16 is the upper half of FP32: loops that the compiler vectorises.
inline void bf16_to_f32(const uint16_t* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = __builtin_bit_cast(float, static_cast<uint32_t>(x[i]) << 16);
}

inline void f32_to_bf16(const float* x, uint16_t* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t u = __builtin_bit_cast(uint32_t, x[i]);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const uint32_t quiet_nan = (u >> 16) | 0x40u;
    y[i] = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
  }
}

#if defined(SHOAL_ISA_avx2) || defined(SHOAL_ISA_avx512)

inline void f16_to_f32(const uint16_t* x, float* y, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
  if (i == n) return;
  uint16_t in[8] = {};
  float out[8];
  memcpy(in, x + i, sizeof(uint16_t) * (n - i));
  _mm256_storeu_ps(out, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in))));
  memcpy(y + i, out, sizeof(float) * (n - i));
}

inline void f32_to_f16(const float* x, uint16_t* y, int64_t n) {
  constexpr int mode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), mode));
  if (i == n) return;
  float in[8] = {};
  uint16_t out[8];
  memcpy(in, x + i, sizeof(float) * (n - i));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_cvtps_ph(_mm256_loadu_ps(in), mode));
  memcpy(y + i, out, sizeof(uint16_t) * (n - i));
}

#else

inline float one_f16_to_f32(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, exponent = (h >> 10) & 31u,
                 mantissa = h & 1023u;
  uint32_t u;
  if (exponent == 31)
    u = 0x7f800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0u);
  else if (exponent == 0)
    u = __builtin_bit_cast(uint32_t, static_cast<float>(mantissa) * 0x1p-24f);
  else
    u = ((exponent + 112) << 23) | (mantissa << 13);
  return __builtin_bit_cast(float, sign | u);
}

inline uint16_t one_f32_to_f16(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x), u = bits & 0x7fffffffu;
  uint32_t h;
  if (u > 0x7f800000u)
    h = 0x7e00u | ((u >> 13) & 0x3ffu);
  else if (u >= 0x477ff000u)  // 65520 and above round to infinity
    h = 0x7c00u;
  else if (u < 0x38800000u)  // below 2^-14: adding 1/2 leaves a last place of 2^-24, the subnormals' unit
    h = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, u) + 0.5f) - 0x3f000000u;
  else
    h = (u + 0xfffu + ((u >> 13) & 1u) - (112u << 23)) >> 13;
  return static_cast<uint16_t>((bits >> 16 & 0x8000u) | h);
}

inline void f16_to_f32(const uint16_t* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = one_f16_to_f32(x[i]);
}
inline void f32_to_f16(const float* x, uint16_t* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = one_f32_to_f16(x[i]);
}

#endif

}  // namespace
}  // namespace shoal::kernels::SHOAL_ISA
