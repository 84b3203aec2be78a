// The gradient norm: exact values, the order of its sums (R8), and clipping.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"
#include "shoal/optim/optimizer.hpp"
#include "support/expect_message.hpp"
#include "support/parameters.hpp"

namespace shoal::optim {
namespace {

using parallel::BucketEngine;
using test::Leaves;
using test::Parameters;

Stream cpu() { return Stream::create({DeviceType::cpu, 0}); }

TEST(GradNorm, CountsEachLogicalElementOnce) {
  Parameters parameters;
  parameters.add("w", nn::ParameterKind::matrix, {1, 300});
  parameters.add("tied", nn::ParameterKind::embedding, {1, 2}, 2);
  parameters.add("split", nn::ParameterKind::matrix, {2, 256});
  BucketEngine engine(parameters.list(), make_self(), {}, cpu());
  parameters[0].grad[0].as<float>()[299] = 3;
  parameters[1].grad[0].as<float>()[1] = 4;
  parameters[1].grad[1].as<float>()[0] = 100;  // part 1 is no element of its own
  parameters[2].grad[0].as<float>()[511] = 12;
  EXPECT_EQ(grad_norm(engine.flat(), cpu()), 13.0);
}

// One number a chunk, with squares over forty binary orders, so that other orders of the FP64 sums give other bits:
// not always (the square root forgets one), hence the rounds.
TEST(GradNorm, FollowsTheTreeOverChunksPiecesAndParameters) {
  const Parameters parameters = Parameters::odd();
  BucketEngine engine(parameters.list(), make_self(), {}, cpu());
  const parallel::FlatParameters& flat = engine.flat();
  for (std::uint64_t round = 0; round < 30; ++round) {
    std::vector<std::vector<double>> pieces(parameters.size());
    for (const shard::Segment& s : flat.layout.segments) {
      std::vector<double> chunks;
      for (std::int64_t i = 0; i < s.numel; i += 256) {
        const float g = Leaves{round}(0, s.tensor, s.piece, i) * static_cast<float>(1 << (i / 256 * 7 % 12));
        flat.grads.as<float>()[s.offset + i] = g;
        chunks.push_back(static_cast<double>(g) * g);
      }
      pieces[s.tensor].push_back(chunks.empty() ? 0.0 : Leaves::tree(chunks));
    }
    std::vector<double> sums;
    for (const auto& p : pieces) sums.push_back(Leaves::tree(p));
    ASSERT_EQ(grad_norm(flat, cpu()), std::sqrt(Leaves::tree(sums))) << "round " << round;
  }
}

TEST(GradNorm, NothingAtAll) {
  BucketEngine engine({}, make_self(), {.zero = 1}, cpu());
  EXPECT_EQ(grad_norm(engine.flat(), cpu()), 0.0);
  engine.begin_step();
  ASSERT_NE(engine.sink(0, true), nullptr);
  engine.end_shard(0);
  EXPECT_NO_THROW(engine.finish());
}

// Squares of FP32 numbers and their sums are far from the limits of FP64 at both ends.
TEST(GradNorm, IsFiniteExactlyWhereAllGradientsAre) {
  const Parameters parameters = Parameters::odd();
  BucketEngine engine(parameters.list(), make_self(), {}, cpu());
  const parallel::FlatParameters& flat = engine.flat();
  float* g = flat.grads.as<float>();
  const auto fill = [&](float value) { std::fill(g, g + flat.layout.numel, value); };
  const double root = std::sqrt(static_cast<double>(flat.layout.numel));
  for (const float value : {std::numeric_limits<float>::max(), -std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::denorm_min()}) {
    fill(value);
    EXPECT_NEAR(grad_norm(flat, cpu()) / (root * std::abs(static_cast<double>(value))), 1.0, 1e-12) << value;
    // Taking out a loss scale afterwards is exact.
    const double norm = grad_norm(flat, cpu());
    EXPECT_EQ(norm / 65536 * 65536, norm);
  }
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()})
    for (const std::int64_t where : {std::int64_t{0}, std::int64_t{4711}, flat.layout.numel - 1}) {
      fill(1.0f);
      g[where] = bad;
      EXPECT_FALSE(std::isfinite(grad_norm(flat, cpu()))) << bad << " at " << where;
    }
}

TEST(ClipByValue, ScalesThenLimitsAndKeepsNaN) {
  const Parameters parameters = Parameters::odd();
  BucketEngine engine(parameters.list(), make_self(), {}, cpu());
  parallel::FlatParameters flat = engine.flat();
  flat.owned = {{256, 1024}};
  float* g = flat.grads.as<float>();
  std::fill(g, g + flat.layout.numel, 8.0f);
  const float inf = std::numeric_limits<float>::infinity();
  const float in[] = {3.0f, -3.0f, 6.0f, -6.0f, 0.0f, inf, -inf},
              out[] = {0.75f, -0.75f, 1.0f, -1.0f, 0.0f, 1.0f, -1.0f};
  std::copy_n(in, 7, g + 300);
  g[307] = std::numeric_limits<float>::quiet_NaN();
  g[1023] = std::numeric_limits<float>::quiet_NaN();
  clip_by_value(flat, 0.25, 1.0, cpu());
  for (int i = 0; i < 7; ++i) EXPECT_EQ(g[300 + i], out[i]);
  EXPECT_TRUE(std::isnan(g[307]));
  EXPECT_TRUE(std::isnan(g[1023]));
  EXPECT_EQ(g[255], 8.0f);  // not owned
  EXPECT_EQ(g[256], 1.0f);
  EXPECT_EQ(g[1024], 8.0f);
  for (const double limit : {0.0, -1.0, static_cast<double>(NAN)})
    EXPECT_MESSAGE(clip_by_value(flat, 1.0, limit, cpu()), ConfigError, "clipping to values of");
}

TEST(ClipFactor, IsPyTorchs) {
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_factor(4.0, 1.0), 1.0 / (4.0 + 1e-6));
  EXPECT_EQ(clip_factor(4.0, 0.0), 1.0);  // off
  EXPECT_EQ(clip_factor(std::numeric_limits<double>::infinity(), 1.0), 0.0);
  EXPECT_TRUE(std::isnan(clip_factor(std::numeric_limits<double>::quiet_NaN(), 1.0)));
  EXPECT_MESSAGE(clip_factor(1.0, -2.0), ConfigError, "norm of -2");
}

}  // namespace
}  // namespace shoal::optim
