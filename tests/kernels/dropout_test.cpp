#include "shoal/ops/dropout.hpp"

#include <gtest/gtest.h>

#include "shoal/core/error.hpp"

#include "kernels/cpu/dropout.hpp"
#include "src/ops/dropout_args.hpp"
#include "support/reference.hpp"

namespace shoal {
namespace {

using namespace test;
using ops::Dropout;

const RandomKey key{.seed = 7, .purpose = Purpose::dropout_attention_out, .batch = 3, .layer = 2};

// What dropout should do to element e of the microbatch, in FP64.
double dropped(double x, const Dropout& d, std::int64_t elements_per_sample, std::int64_t e) {
  if (d.p == 0.0) return x;
  const auto index = static_cast<std::uint64_t>(d.first_sample * elements_per_sample + e);
  return d.key.bits(index) < dropout_threshold(d.p) ? 0.0 : x / (1.0 - d.p);
}

TEST(Dropout, AgreesWithTheDefinitionAtOddSizes) {
  const Stream s = Stream::create({});
  Random random;
  for (double p : {0.0, 0.1, 0.9})
    for (std::int64_t tokens : odd_sizes())
      for (std::int64_t hidden : odd_sizes()) {
        const std::int64_t seq = tokens == 0 ? 1 : tokens;
        const Dropout d{.p = p, .key = key, .first_sample = 5};
        const Tensor x = random_tensor(s, {tokens, hidden}, random),
                     z = random_tensor(s, {tokens, hidden}, random);
        const Tensor bias = random_tensor(s, {hidden}, random),
                     y = Tensor::empty({tokens, hidden}, DType::f32, s);
        std::vector<double> want(x.numel()), want_residual(x.numel()), want_plain(x.numel());
        for (std::int64_t e = 0; e < x.numel(); ++e) {
          const double xe = x.as<float>()[e], ze = z.as<float>()[e];
          want[e] = dropped(xe, d, seq * hidden, e);
          want_residual[e] = xe + dropped(ze + bias.as<float>()[e % hidden], d, seq * hidden, e);
          want_plain[e] = xe + dropped(ze, d, seq * hidden, e);
        }
        ops::dropout_forward(s, x, d, seq, y);
        EXPECT_TRUE(close(y, want, {x}, 1e-6));
        ops::dropout_backward(s, x, d, seq, y);
        EXPECT_TRUE(close(y, want, {x}, 1e-6));
        ops::residual_forward(s, x, z, bias, d, seq, y);
        EXPECT_TRUE(close(y, want_residual, {x, z, bias}, 1e-6));
        ops::residual_forward(s, x, z, {}, d, seq, y);
        EXPECT_TRUE(close(y, want_plain, {x, z}, 1e-6));
        const Tensor in_place = clone(s, z);
        ops::residual_forward(s, x, in_place, {}, d, seq, in_place);
        EXPECT_TRUE(same_bits(in_place, y));
      }
}

TEST(Dropout, KeepsTheShareAndNoNaNPassesADroppedPlace) {
  const Stream s = Stream::create({});
  const Tensor x = filled(s, {257, 1024}, 1.0f), y = Tensor::empty({257, 1024}, DType::f32, s);
  ops::dropout_forward(s, x, {.p = 0.25, .key = key}, 257, y);
  std::int64_t kept = 0;
  for (std::int64_t e = 0; e < y.numel(); ++e) {
    const float v = y.as<float>()[e];
    ASSERT_TRUE(v == 0.0f || v == static_cast<float>(1.0 / 0.75)) << v;
    kept += v != 0.0f;
  }
  // Five standard deviations of a binomial count.
  const double n = static_cast<double>(y.numel());
  EXPECT_NEAR(static_cast<double>(kept), 0.75 * n, 5.0 * std::sqrt(n * 0.75 * 0.25));
  const Tensor nan = filled(s, {257, 1024}, NAN), z = Tensor::empty({257, 1024}, DType::f32, s);
  ops::dropout_forward(s, nan, {.p = 0.25, .key = key}, 257, z);
  for (std::int64_t e = 0; e < y.numel(); ++e) ASSERT_EQ(y.as<float>()[e] == 0.0f, z.as<float>()[e] == 0.0f);
}

TEST(Dropout, TheMaskOfAMicrobatchIsTheSliceOfTheBatchs) {
  const Stream s = Stream::create({});
  Random random;
  const std::int64_t samples = 6, seq = 5, hidden = 33;
  const Tensor x = random_tensor(s, {samples * seq, hidden}, random);
  const Tensor z = random_tensor(s, {samples * seq, hidden}, random);
  const Tensor bias = random_tensor(s, {hidden}, random);
  const Tensor whole = Tensor::empty(x.shape(), DType::f32, s),
               parts = Tensor::empty(x.shape(), DType::f32, s);
  ops::residual_forward(s, x, z, bias, {.p = 0.4, .key = key}, seq, whole);
  std::int64_t first = 0;
  for (std::int64_t n : {1, 2, 3}) {
    const std::int64_t a = first * seq, b = (first + n) * seq;
    ops::residual_forward(s, x.slice(a, b), z.slice(a, b), bias,
                          {.p = 0.4, .key = key, .first_sample = first}, seq, parts.slice(a, b));
    first += n;
  }
  EXPECT_TRUE(same_bits(whole, parts));
}

TEST(Dropout, BitsDoNotDependOnThreadsInstructionSetOrCut) {
  const Stream s = Stream::create({});
  Random random;
  const std::int64_t rows = 257, hidden = 257, n = rows * hidden;
  const Tensor x = random_tensor(s, {rows, hidden}, random), z = random_tensor(s, {rows, hidden}, random);
  const Tensor bias = random_tensor(s, {hidden}, random);
  const Dropout d{.p = 0.3, .key = key, .first_sample = 1};
  const auto by_threads = with_thread_counts([&] {
    const Tensor y = Tensor::empty(x.shape(), DType::f32, s);
    ops::residual_forward(s, x, z, bias, d, rows, y);
    return y;
  });
  EXPECT_TRUE(same_bits(by_threads[0], by_threads[1]));
  EXPECT_TRUE(same_bits(by_threads[0], by_threads[2]));
  const auto args = ops::dropout_args(d, n);
  for (const auto kernel : SHOAL_ALL_ISAS(residual_forward)) {
    const Tensor y = Tensor::empty(x.shape(), DType::f32, s);
    kernel({kernels::Storage::f32, kernels::Storage::f32, kernels::Storage::f32, x.data(), z.data(),
            bias.data(), y.data(), rows, hidden, args});
    EXPECT_TRUE(same_bits(by_threads[0], y));
  }
  Tensor whole = Tensor::empty(x.shape(), DType::f32, s);
  ops::dropout_forward(s, x, d, rows, whole);
  for (const auto kernel : SHOAL_ALL_ISAS(dropout))
    for (std::int64_t cut : {1, 33, 4099}) {
      const Tensor y = Tensor::empty(x.shape(), DType::f32, s);
      kernel(kernels::Storage::f32, x.as<float>(), y.as<float>(), cut, args);
      auto rest = args;
      rest.first += static_cast<std::uint64_t>(cut);
      kernel(kernels::Storage::f32, x.as<float>() + cut, y.as<float>() + cut, n - cut, rest);
      EXPECT_TRUE(same_bits(whole, y)) << "cut at " << cut;
    }
}

TEST(AddAndScale, AreExact) {
  const Stream s = Stream::create({});
  Random random;
  for (std::int64_t n : {0, 1, 31, 33, 257, 70000}) {
    const Tensor x = random_tensor(s, {n}, random), y = random_tensor(s, {n}, random);
    const Tensor sum = clone(s, y), scaled = clone(s, x);
    ops::add_(s, sum, x);
    ops::scale_(s, scaled, 0.3f);
    for (std::int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(sum.as<float>()[i], y.as<float>()[i] + x.as<float>()[i]);
      ASSERT_EQ(scaled.as<float>()[i], x.as<float>()[i] * 0.3f);
    }
  }
}

TEST(Dropout, RefusesShapesAndProbabilities) {
  const Stream s = Stream::create({});
  const Tensor x = filled(s, {2, 3}, 0), y = filled(s, {3, 2}, 0);
  EXPECT_THROW(ops::dropout_forward(s, x, {}, 2, y), ShapeError);
  EXPECT_THROW(ops::residual_forward(s, x, x, filled(s, {2}, 0), {}, 2, x), ShapeError);
  EXPECT_THROW(ops::dropout_forward(s, x, {.p = 1.0, .key = key}, 2, x), ConfigError);
  EXPECT_THROW(ops::dropout_forward(s, x, {.p = 0.5, .key = key}, 0, x), ShapeError);
  EXPECT_THROW(ops::add_(s, x, y), ShapeError);
}

}  // namespace
}  // namespace shoal
