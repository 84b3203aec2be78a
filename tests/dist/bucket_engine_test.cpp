// Sums of gradients by the bucket engine on one to four ranks (threads), against loops that follow R3 and R5.
#include "shoal/parallel/data/bucket_engine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "shoal/comm/bootstrap.hpp"
#include "support/parameters.hpp"

namespace shoal::parallel {
namespace {

using test::Leaves;
using test::Parameters;

Stream cpu() { return Stream::create({DeviceType::cpu, 0}); }

// Calls check(parameter, element of it, place in the flat buffer) for what lies in the owned ranges; counts padding
// that is not zero as a failure.
template <class F>
void for_each_owned(const FlatParameters& flat, F&& check) {
  for (const shard::Segment& s : flat.layout.segments)
    for (const shard::Range& r : flat.owned)
      for (std::int64_t at = std::max(s.offset, r.first); at < std::min(s.offset + s.padded(), r.last);
           ++at) {
        const std::int64_t i = at - s.offset;
        if (i < s.numel)
          check(static_cast<std::size_t>(s.tensor), s.piece * s.numel + i, at);
        else
          ASSERT_EQ(flat.grads.as<float>()[at], 0.0f) << "padding at " << at;
      }
}

// All elements, each owned by exactly one rank (zero 1) or by every rank.
void expect_cover(const std::vector<std::vector<shard::Range>>& owned, const shard::FlatLayout& layout,
                  bool once) {
  std::vector<int> owners(layout.numel / shard::chunk);
  for (const auto& ranges : owned)
    for (const shard::Range& r : ranges) {
      EXPECT_EQ(r.first % shard::chunk, 0);
      EXPECT_EQ(r.last % shard::chunk, 0);
      for (std::int64_t c = r.first / shard::chunk; c < r.last / shard::chunk; ++c) ++owners[c];
    }
  for (std::size_t c = 0; c < owners.size(); ++c)
    ASSERT_EQ(owners[c], once ? 1 : static_cast<int>(owned.size())) << "chunk " << c;
}

void expect_sums(int ranks, const BucketOptions& options, bool exact) {
  SCOPED_TRACE(testing::Message() << ranks << " ranks, zero " << options.zero << ", V " << options.data_shards
                                  << ", buckets of " << options.bucket_bytes << " bytes");
  std::vector<std::vector<shard::Range>> owned(ranks);
  run_local(ranks, [&](std::shared_ptr<Communicator> comm) {
    const Parameters parameters = Parameters::odd();
    BucketEngine engine(parameters.list(), comm, options, cpu());
    const FlatParameters& flat = engine.flat();
    owned[comm->rank()] = flat.owned;
    for (std::uint64_t step = 0; step < 2; ++step) {
      const Leaves leaf{step, exact};
      engine.begin_step();
      backward(engine, parameters, leaf);
      engine.finish();
      std::int64_t wrong = 0;
      for_each_owned(flat, [&](std::size_t p, std::int64_t i, std::int64_t at) {
        const float expected = leaf.sum(engine.data_shards(), parameters[p], p, i);
        if (std::bit_cast<std::uint32_t>(flat.grads.as<float>()[at]) !=
                std::bit_cast<std::uint32_t>(expected) &&
            wrong++ == 0)
          ADD_FAILURE() << "rank " << comm->rank() << " step " << step << ": " << parameters[p].name << "["
                        << i << "] is " << flat.grads.as<float>()[at] << ", the tree gives " << expected;
      });
      EXPECT_EQ(wrong, 0);
      // An update that names its place, and its way to all ranks.
      for_each_owned(flat, [&](std::size_t p, std::int64_t i, std::int64_t at) {
        flat.values.as<float>()[at] = static_cast<float>(1000000 * step + 100000 * p + i);
      });
      engine.publish();
      for (std::size_t p = 0; p < parameters.size(); ++p)
        for (std::int64_t i = 0; i < parameters[p].numel(); ++i)
          ASSERT_EQ(test::element(parameters[p].value, i),
                    static_cast<float>(1000000 * step + 100000 * p + i))
              << "rank " << comm->rank() << ": " << parameters[p].name << "[" << i << "]";
    }
    comm->barrier();
    if (comm->rank() == 0) expect_cover(owned, flat.layout, options.zero == 1);
  });
}

// One chunk a bucket (every tensor but the smallest is cut); odd; all in one bucket.
const std::int64_t bucket_sizes[] = {1024, 5000, std::int64_t{4} << 20};

TEST(BucketEngine, ReproducibleSumsHaveTheBitsOfThePlainTreeOnAnyRanks) {
  for (const int ranks : {1, 2, 3, 4})
    for (const int zero : {0, 1})
      for (const std::int64_t bytes : bucket_sizes)
        expect_sums(ranks, {.bucket_bytes = bytes, .zero = zero, .reproducible = true, .data_shards = 12},
                    false);
}

TEST(BucketEngine, OneShardARank) {
  for (const int ranks : {1, 2, 3, 4})
    for (const int zero : {0, 1})
      expect_sums(ranks, {.bucket_bytes = 5000, .zero = zero, .reproducible = true, .data_shards = ranks},
                  false);
}

TEST(BucketEngine, PlainSumsAreSums) {
  for (const int ranks : {1, 2, 3, 4})
    for (const int zero : {0, 1})
      for (const std::int64_t bytes : bucket_sizes)
        expect_sums(ranks, {.bucket_bytes = bytes, .zero = zero, .data_shards = 12}, true);
}

// The first bucket is summed while the others are not even ready: the barrier comes after it on the communicator.
TEST(BucketEngine, ABucketIsReducedBeforeTheLastParameterIsReady) {
  for (const bool reproducible : {false, true})
    run_local(2, [&](std::shared_ptr<Communicator> comm) {
      Parameters parameters;
      for (const char* name : {"first", "second", "third"})
        parameters.add(name, nn::ParameterKind::matrix, {1, 256});
      BucketEngine engine(parameters.list(), comm, {.bucket_bytes = 1024, .reproducible = reproducible},
                          cpu());
      engine.begin_step();
      nn::GradientSink* sink = engine.sink(0, true);
      const auto grad = [&](int p) { return parameters[p].grad[0].as<float>()[255]; };
      for (int p = 0; p < 3; ++p) std::fill_n(parameters[p].grad[0].as<float>(), 256, 1.0f + comm->rank());
      sink->ready(parameters[2], 0);
      comm->barrier();
      EXPECT_EQ(grad(2), 3.0f);
      EXPECT_EQ(grad(1), 1.0f + comm->rank());
      sink->ready(parameters[0], 0);  // out of order: its own bucket, at once
      comm->barrier();
      EXPECT_EQ(grad(0), 3.0f);
      EXPECT_EQ(grad(1), 1.0f + comm->rank());
      sink->ready(parameters[1], 0);
      engine.end_shard(0);
      engine.finish();
      EXPECT_EQ(grad(1), 3.0f);
    });
}

TEST(BucketEngine, BroadcastGivesTheRootsValues) {
  run_local(3, [&](std::shared_ptr<Communicator> comm) {
    Parameters parameters = Parameters::odd();
    parameters[0].value = Tensor::zeros(parameters[0].shape, DType::f32, cpu());
    parameters[0].value.as<float>()[5] = 10.0f + comm->rank();  // values that are there are kept
    BucketEngine engine(parameters.list(), comm, {.zero = 1}, cpu());
    EXPECT_EQ(parameters[0].value.as<float>()[5], 10.0f + comm->rank());
    engine.broadcast_parameters(1);
    EXPECT_EQ(parameters[0].value.as<float>()[5], 11.0f);
    EXPECT_EQ(engine.flat().values.as<float>()[5], 11.0f);
  });
}

}  // namespace
}  // namespace shoal::parallel
