// Whole steps (gradients, norm, clipping, AdamW, publishing) on one to four ranks: the same bits in reproducible mode,
// whatever the ranks, the ZeRO stage and the bucket size.
#include "shoal/optim/optimizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "shoal/comm/bootstrap.hpp"
#include "support/parameters.hpp"

namespace shoal::optim {
namespace {

using parallel::BucketEngine;
using parallel::BucketOptions;
using test::Leaves;
using test::Parameters;

struct Result {
  std::vector<double> norms;
  std::vector<float> values;
};

Result train(int ranks, const BucketOptions& options) {
  std::vector<Result> results(ranks);
  run_local(ranks, [&](std::shared_ptr<Communicator> comm) {
    const Parameters parameters = Parameters::odd();
    const Stream stream = Stream::create({DeviceType::cpu, 0});
    BucketEngine engine(parameters.list(), comm, options, stream);
    for (std::size_t p = 0; p < parameters.size(); ++p)
      for (std::int64_t i = 0; i < parameters[p].numel(); ++i)
        test::element(parameters[p].value, i) = 0.1f * static_cast<float>(p + 1);
    auto optimizer = make_optimizer({}, engine.flat(), stream);
    Result& result = results[comm->rank()];
    for (std::uint64_t step = 0; step < 3; ++step) {
      engine.begin_step();
      backward(engine, parameters, Leaves{step});
      engine.finish();
      result.norms.push_back(grad_norm(engine.flat(), stream));
      optimizer->step(stream, 1e-2, clip_factor(result.norms.back(), 1.0));
      engine.publish();
    }
    const float* values = engine.flat().values.as<float>();
    result.values.assign(values, values + engine.flat().layout.numel);
  });
  for (int rank = 1; rank < ranks; ++rank) {
    EXPECT_EQ(results[rank].norms, results[0].norms) << "rank " << rank;
    EXPECT_EQ(results[rank].values, results[0].values) << "rank " << rank;
  }
  return results[0];
}

TEST(Optimizer, ThreeStepsGiveTheSameBitsOnAnyLayout) {
  const Result expected = train(1, {.reproducible = true, .data_shards = 12});
  ASSERT_EQ(expected.norms.size(), 3u);
  EXPECT_GT(expected.norms[0], 1.0);
  for (const int ranks : {1, 2, 3, 4})
    for (const int zero : {0, 1})
      for (const std::int64_t bytes : {5000, 1 << 20}) {
        const Result got =
            train(ranks, {.bucket_bytes = bytes, .zero = zero, .reproducible = true, .data_shards = 12});
        EXPECT_EQ(got.norms, expected.norms) << ranks << " ranks, zero " << zero << ", buckets of " << bytes;
        ASSERT_EQ(got.values.size(), expected.values.size());
        EXPECT_EQ(std::memcmp(got.values.data(), expected.values.data(), 4 * got.values.size()), 0)
            << ranks << " ranks, zero " << zero << ", buckets of " << bytes;
      }
}

// More ranks than chunks: some own nothing, and the norm is still collective.
TEST(Optimizer, ARankMayOwnNothing) {
  run_local(4, [](std::shared_ptr<Communicator> comm) {
    Parameters parameters;
    parameters.add("w", nn::ParameterKind::matrix, {1, 3});
    const Stream stream = Stream::create({DeviceType::cpu, 0});
    BucketEngine engine(parameters.list(), comm, {.zero = 1}, stream);
    EXPECT_EQ(engine.flat().owned.size(), comm->rank() == 0 ? 1u : 0u);
    auto optimizer = make_optimizer({.type = "sgd", .momentum = 0, .weight_decay = 0}, engine.flat(), stream);
    engine.begin_step();
    std::fill_n(parameters[0].grad[0].as<float>(), 3, comm->rank() == 2 ? 2.0f : 0.0f);
    engine.sink(0, true)->ready(parameters[0], 0);
    engine.end_shard(0);
    engine.finish();
    EXPECT_EQ(grad_norm(engine.flat(), stream), std::sqrt(12.0));
    optimizer->step(stream, 1.0, 0.5);
    engine.publish();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(parameters[0].value.as<float>()[i], -1.0f);
  });
}

}  // namespace
}  // namespace shoal::optim
