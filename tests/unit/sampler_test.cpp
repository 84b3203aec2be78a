#include "shoal/data/sampler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "shoal/core/error.hpp"
#include "support/expect_message.hpp"

namespace shoal::data {
namespace {

using Order = std::vector<std::int64_t>;

Order order(std::int64_t n, std::uint64_t seed, std::uint64_t epoch) {
  const Permutation p(n, seed, epoch);
  Order out(n);
  for (std::int64_t i = 0; i < n; ++i) out[i] = p(i);
  return out;
}

TEST(Permutation, IsABijectionForAnySize) {
  for (std::int64_t n : {1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 33, 127, 128, 257, 1000, 1024, 4093})
    for (std::uint64_t epoch : {0, 1, 5}) {
      Order p = order(n, 42, epoch), all(n);
      std::sort(p.begin(), p.end());
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(p, all) << "n " << n << ", epoch " << epoch;
    }
}

// The values are part of what a seed means: a change here changes every run. They were computed by a second
// implementation, in Python.
TEST(Permutation, IsPinned) {
  EXPECT_EQ(order(10, 1234, 0), (Order{5, 0, 8, 3, 7, 1, 9, 2, 6, 4}));
  EXPECT_EQ(order(10, 1234, 1), (Order{2, 3, 4, 0, 6, 5, 8, 7, 1, 9}));
  EXPECT_EQ(Permutation(std::int64_t{1} << 40, 1234, 3)(123456789012), 1011359346896);
}

TEST(Permutation, EveryOrderOfFourIsAboutEquallyLikely) {
  std::map<Order, int> seen;
  const int draws = 24 * 500;
  for (int epoch = 0; epoch < draws; ++epoch) ++seen[order(4, 9, epoch)];
  ASSERT_EQ(seen.size(), 24u);
  double chi2 = 0;
  for (const auto& [p, count] : seen) chi2 += std::pow(count - 500.0, 2) / 500.0;
  EXPECT_LT(chi2,
            50);  // 23 degrees of freedom: above 49.7 in one of a thousand; fixed keys, so always the same
}

TEST(Permutation, IsWellMixed) {
  const std::int64_t n = 20011;
  const Order p = order(n, 5, 0), q = order(n, 5, 1), r = order(n, 6, 0);
  const auto rank_correlation = [n](const Order& a, const Order& b) {
    double sum = 0;
    const double mean = (n - 1) / 2.0;
    for (std::int64_t i = 0; i < n; ++i) sum += (a[i] - mean) * (b[i] - mean);
    return sum / (n * (double(n) * n - 1) / 12);
  };
  Order identity(n);
  std::iota(identity.begin(), identity.end(), 0);
  const double sigma = 1 / std::sqrt(double(n));
  EXPECT_LT(std::abs(rank_correlation(p, identity)), 4 * sigma);
  EXPECT_LT(std::abs(rank_correlation(p, q)), 4 * sigma);
  EXPECT_LT(std::abs(rank_correlation(p, r)), 4 * sigma);
  // Successive differences, mod n, fall evenly into 16 bins; the expected number of fixed points is 1.
  std::vector<int> bins(16);
  int fixed = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    ++bins[((p[(i + 1) % n] - p[i] + n) % n) * 16 / n];
    fixed += p[i] == i;
  }
  double chi2 = 0;
  for (int count : bins) chi2 += std::pow(count - n / 16.0, 2) / (n / 16.0);
  EXPECT_LT(chi2, 38);
  EXPECT_LT(fixed, 7);
}

TEST(Sampler, ShardsDrawDisjointSamplesWhoseUnionIsTheEpoch) {
  const std::int64_t n = 60, B = 12;
  const Sampler s(n, B, 3);
  for (std::int64_t V : {1, 2, 3, 4, 12}) {
    std::multiset<std::int64_t> drawn;
    for (std::int64_t b = 0; b < n / B; ++b)
      for (std::int64_t v = 0; v < V; ++v) {
        const shard::Range r = s.shard(v, V);
        EXPECT_EQ(r, (shard::Range{v * B / V, (v + 1) * B / V}));
        for (std::int64_t sample : s.samples(b, r.first, r.size())) drawn.insert(sample);
      }
    ASSERT_EQ(drawn.size(), 60u);
    std::int64_t expected = 0;
    for (std::int64_t sample : drawn) EXPECT_EQ(sample, expected++) << V << " shards";
  }
}

TEST(Sampler, ThePartialBatchIsCompletedFromTheNextEpoch) {
  for (const auto& [n, B] : {std::pair<std::int64_t, std::int64_t>{10, 4}, {7, 7}, {5, 13}, {1, 3}, {3, 2}}) {
    const Sampler s(n, B, 11);
    Order stream;
    for (std::int64_t b = 0; b < 2 * n; ++b)
      for (std::int64_t sample : s.samples(b, 0, B)) stream.push_back(sample);
    for (std::int64_t epoch = 0; epoch < 2 * B; ++epoch)
      EXPECT_EQ(Order(stream.begin() + epoch * n, stream.begin() + (epoch + 1) * n), order(n, 11, epoch))
          << n << " samples in batches of " << B << ", epoch " << epoch;
  }
}

TEST(Sampler, PositionIsAllThatIsNeededToGoOn) {
  const Sampler s(101, 8, 77);
  Order run;
  for (std::int64_t b = 0; b < 40; ++b)
    for (std::int64_t j = 0; j < 8; ++j) run.push_back(s.sample(b, j));
  const Sampler resumed(101, 8, 77);
  const Order rest = resumed.samples(25, 0, 8);
  EXPECT_EQ(rest, Order(run.begin() + 25 * 8, run.begin() + 26 * 8));
  EXPECT_EQ(resumed.samples(25, 3, 2), Order(rest.begin() + 3, rest.begin() + 5));
  EXPECT_TRUE(resumed.samples(25, 8, 0).empty());
  EXPECT_NE(Sampler(101, 8, 78).samples(25, 0, 8), rest);
  EXPECT_DOUBLE_EQ(s.epoch(25), 200.0 / 101);
}

TEST(Sampler, RefusesWhatIsNotThere) {
  const Sampler s(10, 4, 0);
  EXPECT_MESSAGE(Sampler(0, 4, 0), ConfigError, "a sampler of 0 samples and batches of 4");
  EXPECT_MESSAGE(Sampler(10, 0, 0), ConfigError, "batches of 0");
  EXPECT_MESSAGE(s.samples(0, 3, 2), ConfigError, "samples 3 to 4 of a batch of 4");
  EXPECT_MESSAGE(s.samples(-1, 0, 1), ConfigError, "batch -1");
  EXPECT_MESSAGE(s.samples(std::int64_t{1} << 62, 0, 1), ConfigError, "out of range");
  EXPECT_MESSAGE(s.shard(0, 3), ConfigError, "data shard 0 of 3 of a global batch of 4");
  EXPECT_MESSAGE(s.shard(2, 2), ConfigError, "data shard 2 of 2");
  EXPECT_MESSAGE(Permutation(5, 0, 0)(5), ConfigError, "element 5 of a permutation of 5");
}

}  // namespace
}  // namespace shoal::data
