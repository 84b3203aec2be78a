#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "shoal/train/trainer.hpp"

namespace shoal::train {
namespace {

TEST(Metrics, FloatsReadBackToTheSameBits) {
  std::mt19937_64 random(20240917);
  for (int i = 0; i < 2000; ++i) {
    double x = std::bit_cast<double>(random());
    if (!std::isfinite(x)) continue;
    Metrics m;
    m.loss = x;
    m.grad_norm = -x;
    m.lr = 1.0 / (i + 1);
    m.val_loss = x / 3;
    const auto j = nlohmann::json::parse(m.json());
    EXPECT_EQ(std::bit_cast<std::uint64_t>(j["loss"].get<double>()), std::bit_cast<std::uint64_t>(x));
    EXPECT_EQ(std::bit_cast<std::uint64_t>(j["grad_norm"].get<double>()), std::bit_cast<std::uint64_t>(-x));
    EXPECT_EQ(j["lr"].get<double>(), m.lr);
    EXPECT_EQ(j["val_loss"].get<double>(), x / 3);
  }
}

TEST(Metrics, WhatIsNotFiniteIsNull) {
  Metrics m;
  m.loss = std::numeric_limits<double>::quiet_NaN();
  m.grad_norm = std::numeric_limits<double>::infinity();
  const auto j = nlohmann::json::parse(m.json());
  EXPECT_TRUE(j["loss"].is_null());
  EXPECT_TRUE(j["grad_norm"].is_null());
  EXPECT_FALSE(j.contains("val_loss"));
}

TEST(Metrics, HasEveryFieldInOrder) {
  Metrics m;
  m.step = 7;
  m.loss = 2.5;
  m.tokens = 768;
  m.peak_bytes = 1 << 20;
  EXPECT_EQ(
      m.json(),
      R"({"step":7,"loss":2.5,"grad_norm":0.0,"lr":0.0,"tokens":768,"seconds":0.0,"tokens_per_second":0.0,)"
      R"("loss_scale":1.0,"skipped":false,"peak_bytes":1048576})");
}

}  // namespace
}  // namespace shoal::train
