#include "shoal/data/sampler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "data/check_batch.hpp"
#include "shoal/core/error.hpp"
#include "shoal/core/random.hpp"

namespace shoal::data {
namespace {

constexpr std::int64_t max_samples = std::int64_t{1} << 48;

// The paper's bound for an adversary who sees half of the points falls as n^1.5 (3/4)^(rounds / 2): below
// n^-0.1 from 8 log2(n) rounds on. The constant serves small n, where log2 is nearly nothing.
int round_count(std::int64_t n) { return 24 + 8 * std::bit_width(static_cast<std::uint64_t>(n)); }

// Layer 0 of the key holds the rounds' keys, layer r + 1 the coins of round r.
RandomKey key_of(std::uint64_t seed, std::uint64_t epoch, int layer) {
  return {seed, Purpose::shuffle, epoch, static_cast<std::uint32_t>(layer)};
}

}  // namespace

Permutation::Permutation(std::int64_t n, std::uint64_t seed, std::uint64_t epoch)
    : n_(n), seed_(seed), epoch_(epoch) {
  if (n < 1 || n > max_samples)
    throw ConfigError(fmt::format("a permutation of {}: expected 1 to {}", n, max_samples));
  const RandomKey key = key_of(seed, epoch, 0);
  keys_.resize(round_count(n));
  for (std::size_t r = 0; r < keys_.size(); ++r) {
    const std::uint64_t bits = key.bits(2 * r) | std::uint64_t{key.bits(2 * r + 1)} << 32;
    // Uniform in [0, n) to within n / 2^64.
    keys_[r] =
        static_cast<std::int64_t>(static_cast<unsigned __int128>(bits) * static_cast<std::uint64_t>(n) >> 64);
  }
}

std::int64_t Permutation::operator()(std::int64_t i) const {
  if (i < 0 || i >= n_) throw ConfigError(fmt::format("element {} of a permutation of {}", i, n_));
  // Each round pairs x with key - x (mod n) and tosses one coin for the pair, named by its larger member: so
  // the round swaps or does not, and is its own inverse.
  for (std::size_t r = 0; r < keys_.size(); ++r) {
    std::int64_t partner = keys_[r] - i;
    if (partner < 0) partner += n_;
    const RandomKey coins = key_of(seed_, epoch_, static_cast<int>(r) + 1);
    if (coins.bits(static_cast<std::uint64_t>(std::max(i, partner))) >> 31) i = partner;
  }
  return i;
}

Sampler::Sampler(std::int64_t n, std::int64_t global_batch, std::uint64_t seed)
    : n_(n), global_batch_(global_batch), seed_(seed) {
  if (n < 1 || n > max_samples || global_batch < 1)
    throw ConfigError(
        fmt::format("a sampler of {} samples and batches of {}: expected 1 to {} samples, and batches of "
                    "1 or more",
                    n, global_batch, max_samples));
}

double Sampler::epoch(std::int64_t batch) const {
  return static_cast<double>(batch) * static_cast<double>(global_batch_) / static_cast<double>(n_);
}

std::int64_t Sampler::sample(std::int64_t batch, std::int64_t j) const { return samples(batch, j, 1)[0]; }

std::vector<std::int64_t> Sampler::samples(std::int64_t batch, std::int64_t first, std::int64_t count) const {
  if (first < 0 || count < 0 || count > global_batch_ || first > global_batch_ - count)
    throw ConfigError(
        fmt::format("samples {} to {} of a batch of {}", first, first + count - 1, global_batch_));
  if (batch < 0 || batch > std::numeric_limits<std::int64_t>::max() / global_batch_ - 1)
    throw ConfigError(fmt::format("batch {} of {} samples each: out of range", batch, global_batch_));
  std::vector<std::int64_t> result(static_cast<std::size_t>(count));
  std::int64_t e = batch * global_batch_ + first;
  for (std::int64_t at = 0; at < count;) {
    const std::int64_t epoch = e / n_, run = std::min(count - at, n_ - e % n_);
    const Permutation permutation(n_, seed_, static_cast<std::uint64_t>(epoch));
    for (const std::int64_t end = at + run; at < end; ++at, ++e) result[at] = permutation(e % n_);
  }
  return result;
}

shard::Range Sampler::shard(std::int64_t v, std::int64_t shards) const {
  if (shards < 1 || v < 0 || v >= shards || global_batch_ % shards != 0)
    throw ConfigError(
        fmt::format("data shard {} of {} of a global batch of {}: expected a count that divides the batch", v,
                    shards, global_batch_));
  const std::int64_t each = global_batch_ / shards;
  return {v * each, (v + 1) * each};
}

void fill_batch(const Dataset& dataset, const Sampler& sampler, std::int64_t batch, std::int64_t first,
                std::int64_t count, const Tensor& tokens, const Tensor& targets) {
  if (dataset.samples() != sampler.samples())
    throw ConfigError(fmt::format("a sampler of {} samples for a dataset of {} ({})", sampler.samples(),
                                  dataset.samples(), dataset.file().path()));
  const std::int64_t seq = dataset.seq();
  check_batch("tokens", tokens, count, seq);
  check_batch("targets", targets, count, seq);
  const std::vector<std::int64_t> samples = sampler.samples(batch, first, count);
  for (std::int64_t i = 0; i < count; ++i)
    dataset.read(samples[i], tokens.as<std::int32_t>() + i * seq, targets.as<std::int32_t>() + i * seq);
}

}  // namespace shoal::data
