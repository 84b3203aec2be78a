// Tensors of one floating-point type to another: to nearest (convert), and stochastically.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/cast.hpp"
#include "shoal/core/error.hpp"
#include "support/half.hpp"

namespace shoal {
namespace {

using namespace test;
using kernels::Storage;

constexpr float infinity = std::numeric_limits<float>::infinity();

Storage code(DType t) {
  return t == DType::bf16 ? Storage::bf16 : t == DType::f16 ? Storage::f16 : Storage::f32;
}
std::uint16_t* bits_of(const Tensor& t) { return static_cast<std::uint16_t*>(t.data()); }

// What ops::cast gives, which cast_test.cpp holds against the definition.
TEST(Convert, IsTheCastOfEveryElementOnAnyThreadAndInstructionSet) {
  const Stream s = Stream::create({});
  Random random;
  const DType types[] = {DType::f32, DType::bf16, DType::f16};
  for (const std::int64_t n : {0, 1, 15, 16, 33, 50001})
    for (const DType from : types)
      for (const DType to : types) {
        const Tensor x = narrowed(s, random_tensor(s, {n}, random, 1e3), from), want = narrowed(s, x, to);
        const auto runs = with_thread_counts([&] {
          const Tensor y = Tensor::empty({n}, to, s);
          ops::convert(s, x, y);
          s.synchronize();
          return y;
        });
        for (const Tensor& y : runs) EXPECT_TRUE(same_bits(y, want)) << n << " from " << x.str();
        for (const auto kernel : SHOAL_ALL_ISAS(convert)) {
          const Tensor y = Tensor::empty({n}, to, s);
          kernel(code(from), x.data(), code(to), y.data(), n);
          EXPECT_TRUE(same_bits(y, want)) << n << " from " << x.str();
        }
      }
}

TEST(Convert, ShapesMayDifferButNotCountsAndOnlyTrainingTypes) {
  const Stream s = Stream::create({});
  const Tensor x = filled(s, {2, 6}, 1.5f), y = Tensor::empty({3, 4}, DType::bf16, s);
  ops::convert(s, x, y);
  EXPECT_TRUE(same_bits(y, narrowed(s, filled(s, {3, 4}, 1.5f), DType::bf16)));
  EXPECT_THROW(ops::convert(s, x, Tensor::empty({11}, DType::bf16, s)), ShapeError);
  EXPECT_THROW(ops::convert(s, x, Tensor::empty({12}, DType::f64, s)), ShapeError);
  EXPECT_THROW(ops::convert(s, Tensor::empty({12}, DType::i32, s), x), ShapeError);
  EXPECT_THROW(ops::convert(s, x, Tensor()), ShapeError);
  EXPECT_THROW(ops::convert(s, Tensor(), x), ShapeError);
  const Tensor apart = filled(s, {3, 8}, 1.0f).view({3, 4}, 8);
  EXPECT_THROW(ops::convert(s, apart, y), ShapeError);
}

class RoundStochastic : public testing::TestWithParam<DType> {
 protected:
  Stream s = Stream::create({});
  DType type = GetParam();
  RandomKey key{5, Purpose::stochastic_rounding, 77, 3};

  Tensor rounded(const Tensor& x, std::uint64_t first = 0) {
    const Tensor y = Tensor::empty(x.shape(), type, s);
    ops::round_stochastic(s, x, key, first, y);
    s.synchronize();
    return y;
  }
  // The finite values that are not negative, ascending: entry h is the value with bits h.
  const std::vector<double>& finite() {
    if (finite_.empty()) {
      const int n = type == DType::bf16 ? 0x7f80 : 0x7c00;
      const Tensor all = Tensor::empty({n}, type, s);
      for (int h = 0; h < n; ++h) bits_of(all)[h] = static_cast<std::uint16_t>(h);
      finite_ = values(widened(s, all));
    }
    return finite_;
  }
  // By the definition, with bits of the key's number: for finite x.
  std::uint16_t drawn(double x, std::uint32_t number) {
    const std::vector<double>& v = finite();
    const auto low =
        static_cast<std::size_t>(std::upper_bound(v.begin(), v.end(), std::abs(x)) - v.begin() - 1);
    const auto sign = static_cast<std::uint16_t>(std::signbit(x) ? 0x8000 : 0);
    if (low + 1 == v.size()) {  // from the largest up: to nearest, the next value being 2 units on
      const double unit = v[low] - v[low - 1];
      return static_cast<std::uint16_t>(sign | (low + (std::abs(x) - v[low] >= unit / 2)));
    }
    const double fraction = (std::abs(x) - v[low]) / (v[low + 1] - v[low]);
    const bool up = type == DType::bf16 ? (number & 0xffff) / 65536.0 >= 1 - fraction
                                        : (number >> 8) * 0x1p-24 < fraction;
    return static_cast<std::uint16_t>(sign | (low + up));
  }

 private:
  std::vector<double> finite_;
};
INSTANTIATE_TEST_SUITE_P(Types, RoundStochastic, testing::Values(DType::bf16, DType::f16),
                         [](const auto& info) { return std::string(name(info.param)); });

// Values between neighbours in all of the type's range, subnormals and the last gap included, of both signs.
TEST_P(RoundStochastic, TakesTheNeighbourThatItsNumberSays) {
  Random random;
  const std::vector<double>& v = finite();
  std::vector<float> in = {0.0f, -0.0f, static_cast<float>(v.back()), static_cast<float>(-v.back())};
  for (std::size_t h = 0; h + 1 < v.size(); h += 1 + h % 3)
    for (int k = 0; k < 3; ++k) {
      const double x = v[h] + random.uniform(0, 1) * (v[h + 1] - v[h]);
      in.push_back(static_cast<float>(k % 2 ? x : -x));
    }
  for (int k = 1; k < 16; ++k) {
    in.push_back(static_cast<float>(v.back() + (v.back() - v[v.size() - 2]) * k / 16));
    in.push_back(-in.back());
  }
  const std::uint64_t first = (std::uint64_t{1} << 34) - 1000;  // the counter's first word runs over within
  const Tensor x = tensor_of<float>(s, {static_cast<std::int64_t>(in.size())}, in), y = rounded(x, first);
  int ups = 0, wrong = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::uint16_t want = drawn(static_cast<double>(in[i]), key.bits(first + i));
    if (bits_of(y)[i] != want && ++wrong < 10)
      ADD_FAILURE() << std::hexfloat << in[i] << " gave " << std::hex << bits_of(y)[i] << ", not " << want;
    const std::size_t magnitude = want & 0x7fff;  // beyond the finite ones: infinity
    ups += magnitude >= v.size() || std::abs(static_cast<double>(in[i])) < v[magnitude];
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_NEAR(ups / static_cast<double>(in.size()), 0.5, 0.03);
  // The same from every instruction set and number of threads.
  const auto counter = key.counter(0);
  const auto k = key.key();
  for (const auto kernel : SHOAL_ALL_ISAS(round_stochastic)) {
    const Tensor z = Tensor::empty(x.shape(), type, s);
    kernel(x.as<float>(), code(type), z.data(), x.numel(), {k[0], k[1], counter[1], counter[2], counter[3]},
           first);
    EXPECT_TRUE(same_bits(z, y));
  }
  for (const Tensor& z : with_thread_counts([&] { return rounded(x, first); })) EXPECT_TRUE(same_bits(z, y));
}

TEST_P(RoundStochastic, KeepsWhatIsExactAndWhatIsNotFinite) {
  const Tensor all = Tensor::empty({65536}, type, s);
  for (int h = 0; h < 65536; ++h) bits_of(all)[h] = static_cast<std::uint16_t>(h);
  const Tensor wide = widened(s, all);
  // Signalling NaNs become quiet ones, as rounding to nearest has them.
  EXPECT_TRUE(same_bits(rounded(wide), narrowed(s, wide, type)));
  const float largest = std::numeric_limits<float>::max();
  const Tensor x = tensor_of<float>(s, {4}, {infinity, -infinity, largest, -largest});
  EXPECT_TRUE(same_bits(rounded(x), narrowed(s, x, type)));
  EXPECT_EQ(values(widened(s, rounded(x)))[2], infinity);
}

TEST_P(RoundStochastic, AnyCutGivesTheSameBits) {
  Random random;
  const std::int64_t n = 9001;
  const Tensor x = random_tensor(s, {n}, random), whole = rounded(x, 17);
  for (int trial = 0; trial < 20; ++trial) {
    const std::int64_t cut = random.integer(0, n);
    const Tensor parts = Tensor::empty({n}, type, s);
    ops::round_stochastic(s, x.slice(0, cut), key, 17, parts.slice(0, cut));
    ops::round_stochastic(s, x.slice(cut, n), key, 17 + static_cast<std::uint64_t>(cut), parts.slice(cut, n));
    s.synchronize();
    EXPECT_TRUE(same_bits(parts, whole)) << "cut at " << cut;
  }
  RandomKey other = key;
  ++other.batch;
  const Tensor y = Tensor::empty({n}, type, s);
  ops::round_stochastic(s, x, other, 17, y);
  EXPECT_FALSE(same_bits(y, whole));
}

// The mean of many draws is the value: within four standard errors of a Bernoulli variable.
TEST_P(RoundStochastic, KeepsTheValueInExpectation) {
  const std::vector<double>& v = finite();
  const std::int64_t n = 1 << 16;
  const std::size_t one = type == DType::bf16 ? 0x3f80 : 0x3c00,
                    subnormal = type == DType::bf16 ? 0x21 : 0x3f;
  for (const std::size_t h : {std::size_t{0}, subnormal, one, one - 1, v.size() - 2})
    for (const double fraction : {1 / 64.0, 0.25, 0.5, 0.8125})
      for (const double sign : {1.0, -1.0}) {
        const double unit = v[h + 1] - v[h], exact = v[h] + fraction * unit;
        const Tensor x = filled(s, {n}, static_cast<float>(sign * exact));
        ASSERT_EQ(static_cast<double>(x.as<float>()[0]), sign * exact);
        double ups = 0;
        for (const double y : values(widened(s, rounded(x)))) {
          ASSERT_TRUE(sign * y == v[h] || sign * y == v[h + 1]) << y << " from " << sign * exact;
          ups += sign * y == v[h + 1];
        }
        EXPECT_LE(std::abs(ups / n - fraction), 4 * std::sqrt(fraction * (1 - fraction) / n))
            << sign * exact << ", " << fraction << " from " << v[h] << " to " << v[h + 1];
      }
}

TEST_P(RoundStochastic, RefusesOtherTypesAndSizes) {
  const Tensor x = filled(s, {4}, 1.0f), y = Tensor::empty({4}, type, s);
  EXPECT_THROW(ops::round_stochastic(s, x, key, 0, x), ShapeError);
  EXPECT_THROW(ops::round_stochastic(s, y, key, 0, y), ShapeError);
  EXPECT_THROW(ops::round_stochastic(s, x, key, 0, Tensor::empty({3}, type, s)), ShapeError);
  EXPECT_THROW(ops::round_stochastic(s, x, key, 0, Tensor()), ShapeError);
  EXPECT_THROW(ops::round_stochastic(s, Tensor(), key, 0, y), ShapeError);
}

}  // namespace
}  // namespace shoal
