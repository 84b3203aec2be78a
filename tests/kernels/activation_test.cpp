#include "shoal/ops/activation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

namespace shoal {
namespace {

double gelu64(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

TEST(Gelu, ForwardIsCloseToFp64OverTheWholeRange) {
  const Stream s = Stream::create({});
  for (std::int64_t n : {0, 1, 31, 33, 257}) {
    const Tensor x = Tensor::empty({n}, DType::f32, s), y = Tensor::empty({n}, DType::f32, s);
    for (std::int64_t i = 0; i < n; ++i) x.as<float>()[i] = static_cast<float>(-12.0 + 24.0 * i / n);
    ops::gelu_forward(s, x, y);
    for (std::int64_t i = 0; i < n; ++i)
      EXPECT_NEAR(y.as<float>()[i], gelu64(x.as<float>()[i]), 4e-7 * std::max(1.0f, std::abs(x.as<float>()[i])))
          << "at x = " << x.as<float>()[i];
  }
}

}  // namespace
}  // namespace shoal
