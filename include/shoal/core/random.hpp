// Counter-based random numbers: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011). A number is a function of its logical place (seed, purpose, batch, layer,
// index in the logical tensor of the whole global batch) and never of rank, microbatch or shard.
#pragma once
#include <array>
#include <cstdint>

namespace shoal {

// What a number is for. Values are part of the reproducible record: never renumber.
enum class Purpose : std::uint16_t {
  init = 1,     // initial values; layer = the parameter's index in model order
  shuffle = 2,  // the permutation of an epoch
  dropout_embedding = 3,
  dropout_attention = 4,  // on attention probabilities
  dropout_attention_out = 5,
  dropout_ffn_out = 6,
  sample = 7,  // text generation
  stochastic_rounding = 8,
};

// Four 32-bit words for one counter. Internal linkage, so that kernels compiled for several instruction
// sets each keep their own copy.
static inline std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> c,
                                                      std::array<std::uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(p0)};
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return c;
}

// The fixed part of a number's place. Number i is word i % 4 of the Philox block with counter
// {lo32(i/4), hi16(i/4) | layer << 16, lo32(batch), hi16(batch) | purpose << 16} and key {lo32, hi32}(seed).
struct RandomKey {
  std::uint64_t seed = 0;
  Purpose purpose = Purpose::init;
  std::uint64_t batch = 0;  // below 2^48
  std::uint32_t layer = 0;  // below 2^16

  std::array<std::uint32_t, 4> counter(std::uint64_t block) const {
    return {static_cast<std::uint32_t>(block),
            static_cast<std::uint32_t>((block >> 32) & 0xFFFFu) | layer << 16,
            static_cast<std::uint32_t>(batch),
            static_cast<std::uint32_t>((batch >> 32) & 0xFFFFu) | static_cast<std::uint32_t>(purpose) << 16};
  }
  std::array<std::uint32_t, 2> key() const {
    return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  }
  std::uint32_t bits(std::uint64_t i) const { return philox4x32(counter(i / 4), key())[i % 4]; }
  // Uniform in (0, 1): (bits + 0.5) / 2^32, exact in double.
  double uniform(std::uint64_t i) const { return (bits(i) + 0.5) * 0x1p-32; }
  // Standard normal, by Box and Muller on the pair of numbers {2 (i/2), 2 (i/2) + 1}; computed in double.
  double normal(std::uint64_t i) const;
};

// Dropout keeps element i when bits(i) >= dropout_threshold(p), and multiplies it by 1 / (1 - p).
// p in [0, 1). The threshold is round(p 2^32).
std::uint32_t dropout_threshold(double p);

}  // namespace shoal
