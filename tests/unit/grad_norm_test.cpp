// The gradient norm: exact values, the order of its sums (R8), and clipping.
#include <gtest/gtest.h>

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
