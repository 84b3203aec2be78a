#include "shoal/ops/activation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "kernels/cpu/activation.hpp"
#include "support/reference.hpp"

namespace shoal {
namespace {

using namespace test;
using Vec = std::vector<double>;

double gelu64(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

double gelu_derivative64(double x) {
  const double c = std::sqrt(2.0 / std::numbers::pi), t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * c * (1.0 + 3 * 0.044715 * x * x);
}

// n points over the whole range where anything happens.
Tensor ramp(const Stream& s, std::int64_t n) {
  const Tensor x = Tensor::empty({n}, DType::f32, s);
  for (std::int64_t i = 0; i < n; ++i) x.as<float>()[i] = static_cast<float>(-12.0 + 24.0 * i / n);
  return x;
}

TEST(Gelu, ForwardIsCloseToFp64OverTheWholeRange) {
  const Stream s = Stream::create({});
  for (std::int64_t n : odd_sizes()) {
    const Tensor x = ramp(s, n), y = Tensor::empty({n}, DType::f32, s);
    ops::gelu_forward(s, x, y);
    for (std::int64_t i = 0; i < n; ++i)
      EXPECT_NEAR(y.as<float>()[i], gelu64(x.as<float>()[i]),
                  4e-7 * std::max(1.0f, std::abs(x.as<float>()[i])))
          << "at x = " << x.as<float>()[i];
  }
}

TEST(Gelu, BackwardIsCloseToFp64WhichAgreesWithFiniteDifferences) {
  const Stream s = Stream::create({});
  Random random;
  for (std::int64_t n : odd_sizes()) {
    const Tensor x = ramp(s, n), dy = random_tensor(s, {n}, random), dx = Tensor::empty({n}, DType::f32, s);
    ops::gelu_backward(s, dy, x, dx);
    for (std::int64_t i = 0; i < n; ++i) {
      const double derivative = gelu_derivative64(x.as<float>()[i]);
      EXPECT_NEAR(dx.as<float>()[i], dy.as<float>()[i] * derivative, 2e-6 * std::abs(dy.as<float>()[i]))
          << "at x = " << x.as<float>()[i];
      EXPECT_TRUE(
          gradient_matches([](const Vec& v) { return gelu64(v[0]); }, {x.as<float>()[i]}, {derivative}));
    }
  }
}

TEST(Gelu, BitsDoNotDependOnThreadsInstructionSetOrCut) {
  const Stream s = Stream::create({});
  const std::int64_t n = 70001;
  const Tensor x = ramp(s, n), dy = filled(s, {n}, 0.7f);
  const auto forward = with_thread_counts([&] {
    const Tensor y = Tensor::empty({n}, DType::f32, s);
    ops::gelu_forward(s, x, y);
    return y;
  });
  const auto backward = with_thread_counts([&] {
    const Tensor y = Tensor::empty({n}, DType::f32, s);
    ops::gelu_backward(s, dy, x, y);
    return y;
  });
  for (int i : {1, 2}) {
    EXPECT_TRUE(same_bits(forward[0], forward[i]));
    EXPECT_TRUE(same_bits(backward[0], backward[i]));
  }
  const auto forwards = SHOAL_ALL_ISAS(gelu_forward);
  const auto backwards = SHOAL_ALL_ISAS(gelu_backward);
  for (std::size_t k = 0; k < forwards.size(); ++k)
    for (std::int64_t cut : {0, 1, 4097}) {
      const Tensor y = Tensor::empty({n}, DType::f32, s), dx = Tensor::empty({n}, DType::f32, s);
      for (auto [a, b] : {std::pair{std::int64_t{0}, cut}, std::pair{cut, n}}) {
        forwards[k](kernels::Storage::f32, x.as<float>() + a, y.as<float>() + a, b - a);
        backwards[k](kernels::Storage::f32, dy.as<float>() + a, x.as<float>() + a, dx.as<float>() + a, b - a);
      }
      EXPECT_TRUE(same_bits(forward[0], y));
      EXPECT_TRUE(same_bits(backward[0], dx));
    }
}

}  // namespace
}  // namespace shoal
