#include "shoal/ops/cast.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "shoal/core/error.hpp"

namespace shoal {
namespace {

// The definition: sign, exponent and mantissa, in double.
double value_of(DType t, std::uint16_t h) {
  const int bits = t == DType::f16 ? 10 : 7, bias = t == DType::f16 ? 15 : 127, top = 2 * bias + 1;
  const int exponent = (h >> bits) & top;
  const double mantissa = (h & ((1 << bits) - 1)) / std::ldexp(1.0, bits), sign = h >> 15 ? -1.0 : 1.0;
  if (exponent == top) return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  return exponent == 0 ? sign * std::ldexp(mantissa, 1 - bias)
                       : sign * std::ldexp(1 + mantissa, exponent - bias);
}

class Cast : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(All, Cast, testing::Values(DType::f16, DType::bf16),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(Cast, EveryValueBecomesItselfAndComesBack) {
  std::vector<std::uint16_t> all(65536), back(65536);
  for (int i = 0; i < 65536; ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<float> wide(65536);
  ops::cast(GetParam(), all.data(), DType::f32, wide.data(), 65536);
  ops::cast(DType::f32, wide.data(), GetParam(), back.data(), 65536);
  for (int i = 0; i < 65536; ++i) {
    const double expected = value_of(GetParam(), all[i]);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(wide[i])) << i;
      EXPECT_TRUE(std::isnan(value_of(GetParam(), back[i]))) << i;
    } else {
      ASSERT_EQ(wide[i], expected) << i;
      ASSERT_EQ(back[i], all[i]) << i;
    }
  }
}

// Between two neighbours: the nearer one, and of the midpoint the even one.
TEST_P(Cast, RoundsToNearestEven) {
  const std::uint16_t infinity = GetParam() == DType::f16 ? 0x7c00 : 0x7f80;
  std::vector<float> in;
  std::vector<std::uint16_t> expected;
  for (std::uint16_t h = 0; h + 1 < infinity; ++h) {
    const double low = value_of(GetParam(), h),
                 high = value_of(GetParam(), static_cast<std::uint16_t>(h + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    if (static_cast<double>(middle) != (low + high) / 2) continue;  // FP32 has no such subnormal
    in.insert(in.end(), {std::nextafter(middle, 0.0f), middle,
                         std::nextafter(middle, std::numeric_limits<float>::infinity())});
    const auto even = static_cast<std::uint16_t>(h % 2 ? h + 1 : h);
    expected.insert(expected.end(), {h, even, static_cast<std::uint16_t>(h + 1)});
  }
  std::vector<std::uint16_t> out(in.size());
  ops::cast(DType::f32, in.data(), GetParam(), out.data(), static_cast<std::int64_t>(in.size()));
  EXPECT_EQ(out, expected);
}

TEST_P(Cast, EverySizeAndWhatLiesBeside) {
  for (std::int64_t n : {0, 1, 7, 8, 9, 31, 33, 257}) {
    const std::vector<float> in(n, 1.5f);
    std::vector<std::uint16_t> out(n + 1, 0x1234);
    ops::cast(DType::f32, in.data(), GetParam(), out.data(), n);
    for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(value_of(GetParam(), out[i]), 1.5);
    EXPECT_EQ(out[n], 0x1234);
  }
}

TEST(CastTypes, OthersAreRefused) {
  float x = 0;
  double y = 0;
  EXPECT_THROW(ops::cast(DType::f32, &x, DType::f64, &y, 1), ShapeError);
  EXPECT_THROW(ops::cast(DType::f32, &x, DType::f16, &y, -1), ShapeError);
}

}  // namespace
}  // namespace shoal
