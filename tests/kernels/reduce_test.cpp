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

// To nearest even; a NaN stays one. Written from the definition of the format, not as the kernels do it.
std::uint16_t rounded_bf16(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return static_cast<std::uint16_t>(u >> 16 | 0x40);
  const std::uint32_t below = u & 0xffff, kept = u >> 16;
  return static_cast<std::uint16_t>(kept + (below > 0x8000 || (below == 0x8000 && kept % 2 == 1) ? 1 : 0));
}

// One or more copies, through the caches and past them, divided or not, wherever they lie: the bits of the definition,
// and nothing beside them is touched.
template <class T>
void check_copies(DType dtype, const auto& to_float, const auto& from_float) {
  std::mt19937 random(11);
#ifdef SHOAL_SANITIZED
  const std::vector<int> sources{1, 2, 5}, sizes{1, 33, 259};
#else
  const std::vector<int> sources{1, 2, 3, 5, 8}, sizes{1, 15, 33, 64, 4099};
#endif
  for (int n : sources)
    for (int copies : {1, 2, n, 9})
      for (std::int64_t count : sizes)
        for (const bool stream : {false, true})
          for (const int divisor : {1, 3})
            for (const std::int64_t shift : {0, 32, 3}) {
              std::vector<std::vector<T>> in(n, std::vector<T>(count));
              for (auto& a : in)
                for (T& x : a)
                  x = random() % 97 == 0 ? from_float(std::nanf(""))
                                         : from_float(static_cast<float>(random() % 65536) * 0.01f - 300);
              const std::int64_t room = shift + count + 40;
              std::vector<T> memory((room + 64) * copies, T{7});
              std::vector<void*> out;
              for (int c = 0; c < copies; ++c) {
                auto at = reinterpret_cast<std::uintptr_t>(memory.data() + c * (room + 64));
                out.push_back(reinterpret_cast<T*>((at + 63) / 64 * 64) + shift);
              }
              ops::combine_to(ops::Combine::sum, dtype, pointers(in).data(), n, out.data(), copies, stream,
                              count, divisor);
              for (int c = 0; c < copies; ++c) {
                const T* got = static_cast<const T*>(out[c]);
                for (std::int64_t i = 0; i < count; ++i) {
                  std::vector<float> slot(n);
                  for (int s = 0; s < n; ++s) slot[s] = to_float(in[s][i]);
                  shard::tree_reduce(n, [&](std::int64_t a, std::int64_t b) { slot[a] += slot[b]; });
                  const T expected =
                      from_float(divisor == 1 ? slot[0] : slot[0] / static_cast<float>(divisor));
                  if (std::isnan(to_float(expected)))
                    ASSERT_TRUE(std::isnan(to_float(got[i]))) << i;
                  else
                    ASSERT_EQ(std::memcmp(&got[i], &expected, sizeof(T)), 0)
                        << name(dtype) << ", " << n << " sources, copy " << c << " of " << copies
                        << ", element " << i << " of " << count << ", stream " << stream << ", divisor "
                        << divisor << ", shift " << shift;
                }
                ASSERT_EQ(got[count], T{7});
                ASSERT_TRUE(shift == 0 || got[-1] == T{7});
              }
            }
}

TEST(Combine, CopiesHaveTheBitsOfTheTree) {
  check_copies<float>(
      DType::f32, [](float x) { return x; }, [](float x) { return x; });
  check_copies<std::uint16_t>(
      DType::bf16, [](std::uint16_t x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16); },
      rounded_bf16);
}

TEST(Copy, PastTheCachesMovesEveryByteAndNoOther) {
  std::vector<unsigned char> from(5000), to(5000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i * 7 + 1);
  for (std::int64_t bytes : {0, 1, 63, 64, 255, 256, 257, 511, 1025, 4096})
    for (std::int64_t s : {0, 1, 32, 63})
      for (std::int64_t d : {64, 65, 96, 127}) {
        std::fill(to.begin(), to.end(), 0);
        ops::copy_past_caches(from.data() + s, to.data() + d, bytes);
        ASSERT_EQ(std::memcmp(to.data() + d, from.data() + s, bytes), 0) << bytes << ", " << s << ", " << d;
        ASSERT_EQ(to[d - 1], 0);
        ASSERT_EQ(to[d + bytes], 0);
      }
  EXPECT_THROW(ops::copy_past_caches(from.data(), to.data(), -1), ShapeError);
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
