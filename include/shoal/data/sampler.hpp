// Which sample stands where: keyed permutations, so that position is a number and nothing is stored
// (docs/numerics.md, R10).
#pragma once
#include <cstdint>
#include <vector>

#include "shoal/core/tensor.hpp"
#include "shoal/data/dataset.hpp"
#include "shoal/shard/split.hpp"

namespace shoal::data {

// The permutation of [0, n) of one epoch, as a function: the swap-or-not shuffle of Hoang, Morris and Rogaway
// ("An enciphering scheme based on a card shuffle", CRYPTO 2012), its keys and coins from Philox under
// (seed, Purpose::shuffle, epoch). Any n, no cycle walking, O(log n) time and memory.
class Permutation {
 public:
  // Throws ConfigError unless 1 <= n <= 2^48.
  Permutation(std::int64_t n, std::uint64_t seed, std::uint64_t epoch);
  std::int64_t operator()(std::int64_t i) const;  // 0 <= i < n
  std::int64_t size() const { return n_; }

 private:
  std::int64_t n_;
  std::uint64_t seed_, epoch_;
  std::vector<std::int64_t> keys_;  // one a round, each in [0, n)
};

// Sample j of batch b is element e mod n of the permutation of epoch e div n, e = b B + j: an epoch's last,
// partial batch is completed from the next epoch, and B may exceed n. Batches count from 0, skipped ones
// included. Nothing here depends on ranks, so a resumed job goes on by its batch number alone.
class Sampler {
 public:
  // n samples an epoch, B = global_batch samples a batch. Throws ConfigError unless both are 1 or more.
  Sampler(std::int64_t n, std::int64_t global_batch, std::uint64_t seed);

  std::int64_t samples() const { return n_; }
  std::int64_t global_batch() const { return global_batch_; }
  std::uint64_t seed() const { return seed_; }
  double epoch(std::int64_t batch) const;  // epochs done when `batch` begins

  std::int64_t sample(std::int64_t batch, std::int64_t j) const;  // 0 <= j < B
  // Samples first .. first + count - 1 of a batch, [first, first + count) within [0, B).
  std::vector<std::int64_t> samples(std::int64_t batch, std::int64_t first, std::int64_t count) const;

  // The samples of every batch that data shard v of V takes: [v B / V, (v + 1) B / V). Throws ConfigError
  // unless V divides B and 0 <= v < V.
  shard::Range shard(std::int64_t v, std::int64_t shards) const;

 private:
  std::int64_t n_, global_batch_;
  std::uint64_t seed_;
};

// The samples of a batch that Sampler::samples(batch, first, count) names. tokens and targets: i32 on the
// host, [count, seq] or flat. Throws ShapeError for other tensors, ConfigError where sampler and dataset
// differ in samples.
void fill_batch(const Dataset& dataset, const Sampler& sampler, std::int64_t batch, std::int64_t first,
                std::int64_t count, const Tensor& tokens, const Tensor& targets);

}  // namespace shoal::data
