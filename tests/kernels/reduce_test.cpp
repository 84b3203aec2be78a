#include "shoal/ops/reduce.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "shoal/core/error.hpp"
#include "shoal/core/threads.hpp"
#include "shoal/shard/tree.hpp"

namespace shoal {
namespace {

std::vector<const void*> pointers(const auto& arrays) {
  std::vector<const void*> p;
  for (const auto& a : arrays) p.push_back(a.data());
  return p;
}

// The reference: shard::tree_reduce, one element at a time.
TEST(Combine, Fp32SumHasTheBitsOfTheTree) {
  const unsigned seed = 7;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(-1.0f, 1.0f);
  for (int n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 17, 33})
    for (std::int64_t count : {0, 1, 31, 33, 257, 100003}) {
      if (n > 9 && count > 1000) continue;
      std::vector<std::vector<float>> in(n, std::vector<float>(count));
      for (auto& a : in)
        for (float& x : a) x = value(random) * std::exp2(static_cast<float>(random() % 20));
      std::vector<float> out(count);
      ops::combine(ops::Combine::sum, DType::f32, pointers(in).data(), n, out.data(), count);
      for (std::int64_t i = 0; i < count; ++i) {
        std::vector<float> slot(n);
        for (int s = 0; s < n; ++s) slot[s] = in[s][i];
        shard::tree_reduce(n, [&](std::int64_t a, std::int64_t b) { slot[a] = slot[a] + slot[b]; });
        ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]), std::bit_cast<std::uint32_t>(slot[0]))
            << n << " sources, element " << i << " of " << count;
      }
    }
}

TEST(Combine, DestinationMayBeAnySource) {
  for (int n : {3, 11})
    for (int d = 0; d < n; ++d) {
      std::vector<std::vector<float>> in(n, std::vector<float>(1001));
      for (int s = 0; s < n; ++s)
        for (int i = 0; i < 1001; ++i) in[s][i] = static_cast<float>((s + 1) * (i + 1));
      ops::combine(ops::Combine::sum, DType::f32, pointers(in).data(), n, in[d].data(), 1001);
      for (int i = 0; i < 1001; ++i) ASSERT_EQ(in[d][i], static_cast<float>(n * (n + 1) / 2 * (i + 1)));
    }
}

TEST(Combine, BitsDependOnNeitherThreadsNorPlace) {
  std::mt19937 random(3);
  std::vector<std::vector<float>> in(5, std::vector<float>(200001));
  for (auto& a : in)
    for (float& x : a) x = static_cast<float>(random()) * 1e-3f;
  const int threads = num_threads();
  std::vector<float> one(200001), two(200001), shifted(200001);
  set_num_threads(1);
  ops::combine(ops::Combine::sum, DType::f32, pointers(in).data(), 5, one.data(), 200001, 3);
  set_num_threads(2);
  ops::combine(ops::Combine::sum, DType::f32, pointers(in).data(), 5, two.data(), 200001, 3);
  std::vector<const void*> p;
  for (const auto& a : in) p.push_back(a.data() + 7);
  ops::combine(ops::Combine::sum, DType::f32, p.data(), 5, shifted.data() + 7, 200001 - 7, 3);
  set_num_threads(threads);
  EXPECT_EQ(std::memcmp(one.data(), two.data(), one.size() * 4), 0);
  EXPECT_EQ(std::memcmp(one.data() + 7, shifted.data() + 7, (one.size() - 7) * 4), 0);
}

std::uint16_t bf16(float x) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16); }

// Eight values of 256, 1, 1, ... : a sum rounded at each step stays 256.
TEST(Combine, SixteenBitSumsAreRoundedOnce) {
  for (std::int64_t count : {1, 31, 33, 257}) {
    std::vector<std::vector<std::uint16_t>> in(8, std::vector<std::uint16_t>(count, bf16(1.0f)));
    in[0].assign(count, bf16(256.0f));
    std::vector<std::uint16_t> out(count);
    ops::combine(ops::Combine::sum, DType::bf16, pointers(in).data(), 8, out.data(), count);
    // 263 lies between the bf16 neighbours 262 and 264, and the even one is 264.
    EXPECT_EQ(out, std::vector<std::uint16_t>(count, bf16(264.0f)));
    // 40000 in FP16 is 0x78e2; the sum 80000 is past its largest value, the average is not.
    std::vector<std::vector<std::uint16_t>> half(2, std::vector<std::uint16_t>(count, 0x78e2));
    ops::combine(ops::Combine::sum, DType::f16, pointers(half).data(), 2, out.data(), count, 2);
    EXPECT_EQ(out, std::vector<std::uint16_t>(count, 0x78e2));
    ops::combine(ops::Combine::sum, DType::f16, pointers(half).data(), 2, out.data(), count);
    EXPECT_EQ(out, std::vector<std::uint16_t>(count, 0x7c00));  // infinity
  }
}

// Every FP16 value goes through FP32 and back unchanged (NaN stays NaN), subnormals included.
TEST(Combine, EveryFp16ValueSurvives) {
  std::vector<std::uint16_t> in(65536), out(65536);
  for (int i = 0; i < 65536; ++i) in[i] = static_cast<std::uint16_t>(i);
  const void* source = in.data();
  ops::combine(ops::Combine::sum, DType::f16, &source, 1, out.data(), 65536);
  for (int i = 0; i < 65536; ++i) {
    const bool nan = (i & 0x7fff) > 0x7c00;
    if (nan)
      ASSERT_TRUE((out[i] & 0x7fff) > 0x7c00) << i;
    else
      ASSERT_EQ(out[i], in[i]);
  }
}

template <class T>
void integers(DType dtype) {
  const std::vector<std::vector<T>> in{std::vector<T>(33, std::numeric_limits<T>::max()),
                                       std::vector<T>(33, 2), std::vector<T>(33, 3)};
  std::vector<T> out(33);
  const auto p = pointers(in);
  ops::combine(ops::Combine::sum, dtype, p.data(), 3, out.data(), 33);
  EXPECT_EQ(out[32], static_cast<T>(std::numeric_limits<T>::min() + 4));  // wraps
  ops::combine(ops::Combine::min, dtype, p.data(), 3, out.data(), 33);
  EXPECT_EQ(out[32], 2);
  ops::combine(ops::Combine::max, dtype, p.data(), 3, out.data(), 33);
  EXPECT_EQ(out[32], std::numeric_limits<T>::max());
  ops::combine(ops::Combine::product, dtype, p.data() + 1, 2, out.data(), 33);
  EXPECT_EQ(out[32], 6);
}

TEST(Combine, IntegersWrapAndCompare) {
  integers<std::int32_t>(DType::i32);
  integers<std::int64_t>(DType::i64);
  integers<std::uint8_t>(DType::u8);
}

TEST(Combine, NanIsNeverLostByMinOrMax) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (int place = 0; place < 3; ++place)
    for (auto op : {ops::Combine::min, ops::Combine::max, ops::Combine::sum, ops::Combine::product}) {
      std::vector<std::vector<double>> in(3, std::vector<double>(5, 1.0));
      in[place].assign(5, nan);
      std::vector<double> out(5);
      ops::combine(op, DType::f64, pointers(in).data(), 3, out.data(), 5);
      EXPECT_TRUE(std::isnan(out[4])) << place;
    }
}

TEST(Combine, RefusesTypesWithoutArithmetic) {
  std::uint16_t x = 0;
  const void* p = &x;
  EXPECT_THROW(ops::combine(ops::Combine::sum, DType::u16, &p, 1, &x, 1), ShapeError);
  EXPECT_THROW(ops::combine(ops::Combine::sum, DType::f32, &p, 0, &x, 1), ShapeError);
}

}  // namespace
}  // namespace shoal
