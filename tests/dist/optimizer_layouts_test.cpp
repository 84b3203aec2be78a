// Every optimizer, every type of values, with masters and without: one to four ranks, ZeRO 0 and 1, one and two threads
// give the same bits of every value and every state.
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/threads.hpp"
#include "shoal/optim/ema.hpp"
#include "shoal/optim/optimizer.hpp"
#include "support/logical.hpp"

namespace shoal::optim {
namespace {

using test::LogicalModel;
using test::Logicals;

struct Layout {
  int ranks = 1, zero = 0, threads = 1;
  std::int64_t bucket_bytes = 1 << 20;
};

struct Result {
  std::vector<double> norms;
  Logicals values, average;
  std::map<std::string, std::vector<float>>
      state;  // whole: elements of the flat buffers, or what every rank has
  bool operator==(const Result&) const = default;
};

// Where the state of muon's matrices and of its other tensors belongs in the flat buffers depends on the runs: the
// state is not compared element by element, its values' effects are.
bool by_owned_ranges(const OptimizerConfig& c, const std::string& name) {
  return c.type != "muon" && (c.type != "adafactor" || name == "master");
}

// A step's gradients: whole on every rank but for the data shard, as finish() would leave them, would sum to these.
Result train(const OptimizerConfig& c, DType type, const Layout& layout) {
  static constexpr std::int64_t shards = 12;
  std::vector<Result> results(static_cast<std::size_t>(layout.ranks));
  std::mutex mutex;
  std::map<std::string, std::vector<float>> state;
  run_local(layout.ranks, [&](std::shared_ptr<Communicator> comm) {
    set_num_threads(layout.threads);
    const LogicalModel model(true, 3);
    const Stream stream = Stream::create({DeviceType::cpu, 0});
    parallel::BucketEngine engine(model.list(), comm,
                                  {.bucket_bytes = layout.bucket_bytes,
                                   .zero = layout.zero,
                                   .reproducible = true,
                                   .data_shards = shards,
                                   .param_dtype = type},
                                  stream);
    parallel::FlatParameters& flat = engine.flat();
    test::write(flat, model.random(1), flat.values, stream);
    auto optimizer = make_optimizer(c, flat, stream);
    EXPECT_EQ(
        [&] {
          std::int64_t bytes = 0;
          for (const auto& [name, t] : optimizer->state()) bytes += t.nbytes();
          return bytes;
        }(),
        optimizer_state_bytes(c, flat));
    WeightAverage average(0.9, *optimizer, flat, stream);
    Result& result = results[static_cast<std::size_t>(comm->rank())];
    const std::vector<nn::Parameter*> parameters = model.list();
    for (std::uint64_t step = 0; step < 3; ++step) {
      engine.begin_step();
      for (std::int64_t s = 0; s < engine.local_shards(); ++s) {
        const auto shard = static_cast<std::uint64_t>(engine.first_shard() + s);
        nn::GradientSink* sink = engine.sink(s, true);
        for (std::size_t p = parameters.size(); p-- > 0;) {
          const Tensor& grad = parameters[p]->grad[0];
          const std::int64_t piece = grad.shape().tail().numel();
          for (std::int64_t i = 0; i < grad.numel(); ++i) {
            // Full mantissas, zero where the placement may have padding.
            const std::uint64_t h =
                (step * 31 + shard * 7 + p * 131 + static_cast<std::uint64_t>(i)) * 0x9e3779b97f4a7c15u;
            grad.base<float>()[i / piece * grad.leading_stride() + i % piece] =
                parameters[p]->kind == nn::ParameterKind::head && i >= 71 * 20
                    ? 0.0f
                    : static_cast<float>(h >> 40) / 8388608.0f - 1.0f;
          }
          if (sink) sink->ready(*parameters[p], 0);
        }
        engine.end_shard(s);
      }
      engine.finish();
      result.norms.push_back(grad_norm(flat, stream));
      optimizer->step(stream, {0.02, clip_factor(result.norms.back(), 3.0), 5, step});
      average.update(*optimizer, stream);
      engine.publish();
    }
    result.values = test::read(flat, flat.values, stream);
    average.to_gradients(flat, stream);
    result.average = test::read(flat, flat.grads, stream);
    const std::lock_guard lock(mutex);
    for (const auto& [name, t] : optimizer->state()) {
      if (by_owned_ranges(c, name)) {
        state[name].resize(static_cast<std::size_t>(flat.layout.numel));
        std::int64_t at = 0;
        for (const shard::Range& r : flat.owned) {
          std::copy_n(t.as<float>() + at, r.size(), state[name].begin() + r.first);
          at += r.size();
        }
      } else if (c.type == "adafactor") {
        result.state[name].assign(t.as<float>(), t.as<float>() + t.numel());
      }
    }
  });
  for (std::size_t rank = 1; rank < results.size(); ++rank)
    EXPECT_TRUE(results[rank] == results[0]) << c.type << ": rank " << rank << " differs from rank 0";
  for (auto& [name, all] : state) results[0].state[name] = std::move(all);
  return results[0];
}

class OptimizerLayouts : public ::testing::TestWithParam<const char*> {};

TEST_P(OptimizerLayouts, GiveTheSameBits) {
  ParameterGroup keys;
  keys.pattern = "attention.k";
  keys.lr_scale = 0.5;
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const char* masters : {"fp32", "none"}) {
      if (type == DType::f32 && std::string(masters) == "none") continue;
      OptimizerConfig c{.type = GetParam(), .master_weights = masters, .groups = {keys}};
      const Result expected = train(c, type, {});
      ASSERT_EQ(expected.norms.size(), 3u);
      ASSERT_GT(expected.norms[0], 3.0);
      ASSERT_NE(expected.values, LogicalModel(true, 3).random(1));
      for (const Layout& l : {Layout{1, 1, 2},
                              {2, 0, 2},
                              {2, 1, 1},
                              {3, 0, 1},
                              {3, 1, 2},
                              {4, 0, 2},
                              {4, 1, 1},
                              {3, 1, 1, 5000},
                              {4, 1, 2, 3000}}) {
        const Result got = train(c, type, l);
        const auto where = [&] {
          return ::testing::Message()
                 << name(type) << ", masters " << masters << ", " << l.ranks << " ranks, zero " << l.zero
                 << ", " << l.threads << " threads, buckets of " << l.bucket_bytes;
        };
        EXPECT_EQ(got.norms, expected.norms) << where();
        EXPECT_TRUE(got.values == expected.values) << where();
        EXPECT_TRUE(got.average == expected.average) << where();
        for (const auto& [name, all] : expected.state)
          EXPECT_TRUE(got.state.at(name) == all) << name << ": " << where();
      }
    }
}
INSTANTIATE_TEST_SUITE_P(Types, OptimizerLayouts,
                         ::testing::Values("adamw", "adam", "sgd", "lion", "lamb", "adafactor", "muon"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace shoal::optim
