// Philox 4x32-10 for 32 numbers at a time: the same words as shoal/core/random.hpp, some five times as
// fast.
//
// A round multiplies two words of 32 bits to 64. With one block in each 64-bit lane the product's low half is
// already where the next round's multiplication reads it and the high half is one shift away, so four blocks
// (16 numbers) cost 2 multiplications, 2 shifts and 4 exclusive-ors a round. Blocks sit in the order 0, 2, 1,
// 3, which is what makes the two final interleavings give the numbers in their order. Included only by
// kernels/cpu/*.cpp.
#pragma once
#include "kernels/common/random_args.hpp"
#include "kernels/common/vec.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

#if defined(SHOAL_ISA_avx2) || defined(SHOAL_ISA_avx512)
struct PhiloxBlocks {  // four blocks, one in each 64-bit lane; the high halves of words are not looked at
  __m256i c0, c1, c2, c3;
};
SHOAL_INLINE PhiloxBlocks philox_counters(const RandomArgs& a, uint64_t block) {
  const __m256i index =
      _mm256_add_epi64(_mm256_set1_epi64x(static_cast<int64_t>(block)), _mm256_setr_epi64x(0, 2, 1, 3));
  return {index,
          _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi64(index, 32), _mm256_set1_epi64x(0xFFFF)),
                          _mm256_set1_epi64x(a.counter1)),
          _mm256_set1_epi64x(a.counter2), _mm256_set1_epi64x(a.counter3)};
}
SHOAL_INLINE void philox_round(PhiloxBlocks& b, __m256i k0, __m256i k1) {
  const __m256i p0 = _mm256_mul_epu32(b.c0, _mm256_set1_epi64x(0xD2511F53));
  const __m256i p1 = _mm256_mul_epu32(b.c2, _mm256_set1_epi64x(0xCD9E8D57));
  b.c0 = _mm256_xor_si256(_mm256_srli_epi64(p1, 32), _mm256_xor_si256(b.c1, k0));
  b.c2 = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), _mm256_xor_si256(b.c3, k1));
  b.c1 = p1;
  b.c3 = p0;
}
SHOAL_INLINE void philox_store(uint32_t* out, const PhiloxBlocks& b) {
  const __m256i w01 = _mm256_blend_epi32(b.c0, _mm256_slli_epi64(b.c1, 32), 0xAA);
  const __m256i w23 = _mm256_blend_epi32(b.c2, _mm256_slli_epi64(b.c3, 32), 0xAA);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_unpacklo_epi64(w01, w23));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 8), _mm256_unpackhi_epi64(w01, w23));
}
#endif

// Numbers 4 block, ..., 4 block + 31 to out: two groups of four blocks side by side, since a round's operations wait
// for one another.
SHOAL_INLINE void philox32(const RandomArgs& a, uint64_t block, uint32_t* out) {
#if defined(SHOAL_ISA_avx2) || defined(SHOAL_ISA_avx512)
  PhiloxBlocks x = philox_counters(a, block), y = philox_counters(a, block + 4);
  __m256i k0 = _mm256_set1_epi64x(a.key0), k1 = _mm256_set1_epi64x(a.key1);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    philox_round(x, k0, k1);
    philox_round(y, k0, k1);
    k0 = _mm256_add_epi32(k0, _mm256_set1_epi64x(0x9E3779B9));
    k1 = _mm256_add_epi32(k1, _mm256_set1_epi64x(0xBB67AE85));
  }
  philox_store(out, x);
  philox_store(out + 16, y);
#else
  uint32_t k0 = a.key0, k1 = a.key1;
  uint32_t c[4][8];  // word, block
  for (int b = 0; b < 8; ++b) {
    const uint64_t index = block + static_cast<uint64_t>(b);
    c[0][b] = static_cast<uint32_t>(index);
    c[1][b] = static_cast<uint32_t>((index >> 32) & 0xFFFFu) | a.counter1;
    c[2][b] = a.counter2;
    c[3][b] = a.counter3;
  }
  for (int round = 0; round < 10; ++round) {
    for (int b = 0; b < 8; ++b) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c[0][b], p1 = uint64_t{0xCD9E8D57u} * c[2][b];
      c[0][b] = static_cast<uint32_t>(p1 >> 32) ^ c[1][b] ^ k0;
      c[2][b] = static_cast<uint32_t>(p0 >> 32) ^ c[3][b] ^ k1;
      c[1][b] = static_cast<uint32_t>(p1);
      c[3][b] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int i = 0; i < 32; ++i) out[i] = c[i % 4][i / 4];
#endif
}

// A window of numbers: fill(a, first, n) gives a pointer to numbers first, ..., first + n - 1, n <= capacity;
// up to 15 further ones may be read.
struct RandomWindow {
  static constexpr int64_t capacity = 256;
  alignas(64) uint32_t words[capacity + 64];
  const uint32_t* fill(const RandomArgs& a, uint64_t first, int64_t n) {
    const int64_t skip = static_cast<int64_t>(first % 4);
    for (int64_t i = 0; i < skip + n; i += 32)
      philox32(a, (first - static_cast<uint64_t>(skip)) / 4 + static_cast<uint64_t>(i / 4), words + i);
    return words + skip;
  }
};

// Dropout of 16 elements whose numbers are `bits`: 0 where they are below the threshold, x * scale elsewhere.
SHOAL_INLINE vf drop(vf x, vi bits, vi threshold, vf scale) {
  return select(less_unsigned(bits, threshold), set1(0.0f), x * scale);
}

}  // namespace
}  // namespace shoal::kernels::SHOAL_ISA
