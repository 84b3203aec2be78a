// The bucket engine on one rank: views, memory, and what it refuses.
#include "shoal/parallel/data/bucket_engine.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"
#include "src/parallel/data/bucket_plan.hpp"
#include "support/expect_message.hpp"
#include "support/parameters.hpp"

namespace shoal::parallel {
namespace {

using test::Leaves;
using test::Parameters;

Stream cpu() { return Stream::create({DeviceType::cpu, 0}); }

TEST(BucketEngine, OneRankAndOneShardNeedNoCopyAndNoCollective) {
  for (const bool reproducible : {false, true})
    for (const int zero : {0, 1}) {
      const Parameters parameters = Parameters::odd();
      const auto comm = make_self();
      BucketEngine engine(parameters.list(), comm, {.zero = zero, .reproducible = reproducible}, cpu());
      const auto allocations = comm->allocator()->stats().allocations;
      comm->abort("no collective is expected");
      for (std::uint64_t step = 0; step < 2; ++step) {
        engine.begin_step();
        backward(engine, parameters, Leaves{step});
        for (const shard::Segment& s : engine.flat().layout.segments)
          if (s.piece == 0) {
            EXPECT_EQ(parameters[s.tensor].grad[0].data(), engine.flat().grads.as<float>() + s.offset);
          }
        engine.finish();
        engine.publish();
      }
      EXPECT_EQ(comm->allocator()->stats().allocations, allocations);
      EXPECT_EQ(parameters[6].grad[0].as<float>()[100], Leaves{1}.sum(1, parameters[6], 6, 100));
      EXPECT_EQ(engine.flat().owned, (std::vector<shard::Range>{{0, engine.flat().layout.numel}}));
    }
}

TEST(BucketEngine, MemoryIsPredictedExactly) {
  for (const std::int64_t shards : {1, 2, 12}) {
    const Parameters parameters = Parameters::odd();
    const BucketOptions options{.zero = 1, .reproducible = true, .data_shards = shards};
    const auto comm = make_self();
    const auto before = comm->allocator()->stats().in_use;
    BucketEngine engine(parameters.list(), comm, options, cpu());
    EXPECT_EQ(comm->allocator()->stats().in_use - before,
              BucketEngine::value_bytes(parameters.list(), 1, options) +
                  BucketEngine::predicted_bytes(parameters.list(), 1, 0, options));
    // Exactly: chunks of the values, of the extra parts, and slots of the carry stack.
    const std::int64_t values = 10 + 1 + 6 + 0 + 2 + 2 + 39 + 1 + 6, extra = 10 + 2 + 2 + 2 + 6;
    const std::int64_t slots = shards == 1 ? 1 : shards == 2 ? 2 : 4;
    EXPECT_EQ(BucketEngine::value_bytes(parameters.list(), 1, options), values * 1024);
    EXPECT_EQ(BucketEngine::predicted_bytes(parameters.list(), 1, 0, options),
              slots * (values + extra) * 1024);
  }
}

// Every chunk of every part is in exactly one bucket; with ZeRO 1 buckets divide among ranks and wait for no
// parameter that stage 0 would not wait for.
TEST(BucketPlan, BucketsCoverEverythingOnceAndDivideAmongRanks) {
  const Parameters parameters = Parameters::odd();
  for (const int ranks : {1, 2, 3, 4, 7})
    for (const int zero : {0, 1})
      for (const bool reproducible : {false, true})
        for (const std::int64_t bytes : {1, 1024, 5000, 40000, 4 << 20}) {
          const EnginePlan plan =
              make_plan(parameters.list(), ranks, 0,
                        {.bucket_bytes = bytes, .zero = zero, .reproducible = reproducible});
          std::int64_t main_end = plan.storage, extra_end = plan.slot_numel;
          for (const BucketPlan& b : plan.buckets) {
            EXPECT_EQ(b.elements.last, b.extra ? extra_end : main_end);
            (b.extra ? extra_end : main_end) = b.elements.first;
            EXPECT_GT(b.elements.size(), 0);
            EXPECT_FALSE(b.waits_for.empty());
            if (!b.extra && zero == 1) {  // its cut is the plan's, moved up to the next one that divides
              const auto planned = shard::plan_buckets(plan.layout, std::max<std::int64_t>(bytes / 4, 1));
              EXPECT_TRUE(std::any_of(planned.begin(), planned.end(), [&](const shard::Bucket& p) {
                return p.elements.first <= b.elements.first &&
                       b.elements.first - p.elements.first < shard::chunk * ranks;
              })) << b.elements.first;
              EXPECT_EQ(b.elements.size() % (shard::chunk * ranks), 0);
            }
            EXPECT_LE(b.elements.size(), std::max<std::int64_t>(bytes / 4, 256) + shard::chunk * ranks);
          }
          EXPECT_EQ(main_end, 0);
          EXPECT_EQ(extra_end, reproducible ? plan.storage : plan.slot_numel);
          EXPECT_LT(plan.storage - plan.layout.numel, shard::chunk * ranks);
          EXPECT_EQ(plan.layout.numel, 67 * 256);  // whatever the ranks
        }
}

TEST(BucketEngine, AStepThatIsNotWholeIsRefused) {
  const Parameters parameters = Parameters::odd();
  const auto comm = make_self();
  BucketEngine engine(parameters.list(), comm, {.reproducible = true, .data_shards = 2}, cpu());
  EXPECT_MESSAGE(engine.sink(0, true), Error, "sink before begin_step");
  EXPECT_MESSAGE(engine.finish(), Error, "finish after 0 of 2 local shards");
  engine.begin_step();
  EXPECT_MESSAGE(engine.begin_step(), Error, "begin_step in a step");
  EXPECT_MESSAGE(engine.end_shard(1), Error, "local shard 1: expected 0 of 2");
  EXPECT_EQ(engine.sink(0, false), nullptr);
  EXPECT_EQ(engine.sink(0, true), nullptr);  // the first of two shards stays on the stack
  engine.end_shard(0);
  EXPECT_MESSAGE(engine.finish(), Error, "finish after 1 of 2 local shards");
  EXPECT_EQ(engine.sink(1, false), nullptr);
  nn::GradientSink* sink = engine.sink(1, true);
  ASSERT_NE(sink, nullptr);
  for (std::size_t p = 0; p < parameters.size(); ++p)
    for (std::int64_t k = 0; k < parameters[p].parts; ++k)
      if (!(p == 4 && k == 1)) sink->ready(parameters[p], k);
  EXPECT_MESSAGE(sink->ready(parameters[5], 0), TrainError, "the gradient of weight is ready twice");
  EXPECT_MESSAGE(sink->ready(parameters[4], 2), TrainError,
                 "part 2 of the gradient of bias is ready, which has 2");
  nn::Parameter stranger;
  stranger.name = "stranger";
  EXPECT_MESSAGE(sink->ready(stranger, 0), TrainError, "stranger");
  engine.end_shard(1);
  EXPECT_MESSAGE(engine.finish(), TrainError,
                 "part 1 of 2 of the gradient of bias was never ready in this step (1 of");
}

TEST(BucketEngine, RefusesImpossibleOptionsAndParameters) {
  const Parameters good = Parameters::odd();
  EXPECT_MESSAGE(make_plan(good.list(), 5, 0, {.reproducible = true, .data_shards = 12}), ConfigError,
                 "12 data shards (reproducible.data) do not divide among 5 data-parallel ranks");
  EXPECT_MESSAGE(make_plan(good.list(), 1, 0, {.zero = 2}), ConfigError, "zero = 2");
  EXPECT_MESSAGE(make_plan(good.list(), 1, 0, {.bucket_bytes = 0}), ConfigError, "buckets of 0 bytes");
  EXPECT_MESSAGE(make_plan(good.list(), 1, 0, {.data_shards = -1}), ConfigError, "-1 data shards");
  auto twice = good.list();
  twice.push_back(twice[5]);
  EXPECT_MESSAGE(make_plan(twice, 1, 0, {}), ConfigError, "weight is listed twice");
  Parameters bad;
  bad.add("qkv", nn::ParameterKind::bias, {3, 96});
  bad[0].parts = 0;
  EXPECT_MESSAGE(make_plan(bad.list(), 1, 0, {}), ConfigError, "qkv has 0 parts");
}

}  // namespace
}  // namespace shoal::parallel
