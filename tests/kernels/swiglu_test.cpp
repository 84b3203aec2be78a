#include <gtest/gtest.h>

#include "kernels/cpu/activation.hpp"
#include "shoal/core/error.hpp"
#include "shoal/ops/activation.hpp"
#include "support/reference.hpp"

namespace shoal {
namespace {

using namespace test;
using Vec = std::vector<double>;

Vec forward64(const Vec& gu, std::int64_t F) {
  Vec y(gu.size() / 2);
  for (std::size_t e = 0; e < y.size(); ++e) {
    const std::size_t at = e / F * 2 * F + e % F;
    y[e] = gu[at] / (1.0 + std::exp(-gu[at])) * gu[at + F];
  }
  return y;
}

Vec backward64(const Vec& dy, const Vec& gu, std::int64_t F) {
  Vec d(gu.size());
  for (std::size_t e = 0; e < dy.size(); ++e) {
    const std::size_t at = e / F * 2 * F + e % F;
    const double g = gu[at], u = gu[at + F], s = 1.0 / (1.0 + std::exp(-g));
    d[at] = dy[e] * u * (s + g * s * (1.0 - s));
    d[at + F] = dy[e] * g * s;
  }
  return d;
}

TEST(SwigluReference, AgreesWithFiniteDifferences) {
  Random random;
  Vec gu(2 * 2 * 3), dy(2 * 3);
  for (double& e : gu) e = random.normal(2.0);
  for (double& e : dy) e = random.normal();
  EXPECT_TRUE(
      gradient_matches([&](const Vec& v) { return dot(dy, forward64(v, 3)); }, gu, backward64(dy, gu, 3)));
}

TEST(Swiglu, AgreesWithFp64AtOddSizes) {
  const Stream s = Stream::create({});
  Random random;
  for (std::int64_t rows : odd_sizes())
    for (std::int64_t F : odd_sizes()) {
      const Tensor gu = random_tensor(s, {rows, 2 * F}, random, 4.0),
                   dy = random_tensor(s, {rows, F}, random);
      const Tensor y = Tensor::empty({rows, F}, DType::f32, s),
                   d = Tensor::empty({rows, 2 * F}, DType::f32, s);
      ops::swiglu_forward(s, gu, y);
      EXPECT_TRUE(close(y, forward64(values(gu), F), {gu}));
      ops::swiglu_backward(s, dy, gu, d);
      EXPECT_TRUE(close(d, backward64(values(dy), values(gu), F), {gu, dy}));
      const Tensor in_place = clone(s, gu);
      ops::swiglu_backward(s, dy, in_place, in_place);
      EXPECT_TRUE(same_bits(in_place, d));
    }
}

TEST(Swiglu, BitsDoNotDependOnThreadsInstructionSetOrCut) {
  const Stream s = Stream::create({});
  Random random;
  const std::int64_t rows = 257, F = 257;
  const Tensor gu = random_tensor(s, {rows, 2 * F}, random, 4.0), dy = random_tensor(s, {rows, F}, random);
  struct Result {
    Tensor y, d;
  };
  const auto runs = with_thread_counts([&] {
    const Result r{Tensor::empty({rows, F}, DType::f32, s), Tensor::empty({rows, 2 * F}, DType::f32, s)};
    ops::swiglu_forward(s, gu, r.y);
    ops::swiglu_backward(s, dy, gu, r.d);
    return r;
  });
  for (int i : {1, 2}) {
    EXPECT_TRUE(same_bits(runs[0].y, runs[i].y));
    EXPECT_TRUE(same_bits(runs[0].d, runs[i].d));
  }
  const auto forwards = SHOAL_ALL_ISAS(swiglu_forward);
  const auto backwards = SHOAL_ALL_ISAS(swiglu_backward);
  for (std::size_t k = 0; k < forwards.size(); ++k)
    for (std::int64_t cut : {0, 1, 100}) {
      const Tensor y = Tensor::empty({rows, F}, DType::f32, s),
                   d = Tensor::empty({rows, 2 * F}, DType::f32, s);
      for (auto [a, b] : {std::pair{std::int64_t{0}, cut}, std::pair{cut, rows}}) {
        forwards[k](kernels::Storage::f32, gu.as<float>() + a * 2 * F, y.as<float>() + a * F, b - a, F);
        backwards[k](kernels::Storage::f32, dy.as<float>() + a * F, gu.as<float>() + a * 2 * F,
                     d.as<float>() + a * 2 * F, b - a, F);
      }
      EXPECT_TRUE(same_bits(runs[0].y, y));
      EXPECT_TRUE(same_bits(runs[0].d, d));
    }
}

TEST(Swiglu, KeepsLeadingDimensionsAndRefusesAnOddWidth) {
  const Stream s = Stream::create({});
  const Tensor gu = filled(s, {2, 3, 4}, 1.0f), y = filled(s, {2, 3, 2}, 0.0f);
  ops::swiglu_forward(s, gu, y);
  EXPECT_FLOAT_EQ(y.as<float>()[11], static_cast<float>(1.0 / (1.0 + std::exp(-1.0))));
  EXPECT_THROW(ops::swiglu_forward(s, filled(s, {2, 3}, 0), y), ShapeError);
  EXPECT_THROW(ops::swiglu_forward(s, gu, filled(s, {2, 3, 4}, 0)), ShapeError);
}

}  // namespace
}  // namespace shoal
