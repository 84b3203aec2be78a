// Values of 16 bits: FP32 masters beside them, or stochastic rounding (R10).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"
#include "shoal/ops/cast.hpp"
#include "shoal/optim/ema.hpp"
#include "shoal/optim/optimizer.hpp"
#include "support/expect_message.hpp"
#include "support/logical.hpp"

namespace shoal::optim {
namespace {

using test::LogicalModel;
using test::Logicals;

const char* const types[] = {"adamw", "adam", "sgd", "lion", "muon", "adafactor", "lamb"};

struct Job {
  Stream stream = Stream::create({DeviceType::cpu, 0});
  LogicalModel model{true, 3};
  parallel::BucketEngine engine;
  std::unique_ptr<Optimizer> optimizer;
  std::uint64_t batch = 0;

  Job(const OptimizerConfig& c, DType type, const Logicals& values)
      : engine(model.list(), make_self(), {.param_dtype = type}, stream) {
    test::write(flat(), values, flat().values, stream);
    optimizer = make_optimizer(c, flat(), stream);
  }
  parallel::FlatParameters& flat() { return engine.flat(); }
  void step(double lr, double grad_scale = 1) {
    test::write(flat(), model.random(50 + batch), flat().grads, stream);
    optimizer->step(stream, {lr, grad_scale, 3, batch++});
    stream.synchronize();
  }
  Logicals values() { return test::read(flat(), flat().values, stream); }
  Tensor state(const std::string& name) {
    for (const auto& [n, t] : optimizer->state())
      if (n == name) return t;
    return {};
  }
};

// `values` to the nearest numbers of a type.
Logicals rounded(const Logicals& values, DType type) {
  const LogicalModel model(true, 3);
  const Stream stream = Stream::create({DeviceType::cpu, 0});
  parallel::BucketEngine engine(model.list(), make_self(), {.param_dtype = type}, stream);
  test::write(engine.flat(), values, engine.flat().values, stream);
  return test::read(engine.flat(), engine.flat().values, stream);
}

// The masters are the FP32 job's values, and the values are the masters to the nearest. Not lamb, whose norms are those
// of the values.
TEST(Masters, AreWhatAnFp32JobHas) {
  for (const DType type : {DType::bf16, DType::f16})
    for (const char* name : types) {
      if (std::string(name) == "lamb") continue;
      const Logicals initial = rounded(LogicalModel(true, 3).random(1), type);
      Job wide({.type = name}, DType::f32, initial), narrow({.type = name}, type, initial);
      EXPECT_FALSE(wide.state("master").defined());
      for (int t = 0; t < 4; ++t) {
        wide.step(0.01);
        narrow.step(0.01);
        EXPECT_EQ(test::read(narrow.flat(), narrow.state("master"), narrow.stream), wide.values()) << name;
        EXPECT_EQ(narrow.values(), rounded(wide.values(), type)) << name;
      }
    }
}

TEST(Masters, AreRefreshedWhenAsked) {
  Job job({.type = "sgd", .momentum = 0, .weight_decay = 0}, DType::bf16, LogicalModel(true, 3).random(1));
  const Logicals other = rounded(job.model.random(2), DType::bf16);
  test::write(job.flat(), other, job.flat().values, job.stream);
  job.optimizer->refresh_masters(job.stream);
  EXPECT_EQ(test::read(job.flat(), job.state("master"), job.stream), other);
  EXPECT_EQ(test::read(job.flat(), job.optimizer->owned_values(job.stream), job.stream), other);
  job.step(0);
  EXPECT_EQ(job.values(), other);
}

// Value e of logical tensor l is the FP32 update of the value, rounded by number e of key (seed, batch, l).
TEST(StochasticRounding, IsKeyedByTheLogicalPlace) {
  for (const DType type : {DType::bf16, DType::f16})
    for (const char* name : types) {
      const Logicals initial = rounded(LogicalModel(true, 3).random(1), type);
      Job wide({.type = name, .master_weights = "none"}, DType::f32, initial),
          narrow({.type = name, .master_weights = "none"}, type, initial);
      EXPECT_FALSE(narrow.state("master").defined());
      wide.batch = narrow.batch = 6;
      wide.step(0.01);
      narrow.step(0.01);
      Logicals expected = wide.values();
      const Stream& s = wide.stream;
      for (std::size_t l = 0; l < expected.size(); ++l) {
        const auto n = static_cast<std::int64_t>(expected[l].size());
        const Tensor x = Tensor::from_blob(expected[l].data(), {n}, DType::f32, {}),
                     y = Tensor::empty({n}, type, s);
        ops::round_stochastic(s, x, {3, Purpose::stochastic_rounding, 6, static_cast<std::uint32_t>(l)}, 0,
                              y);
        ops::convert(s, y, x);
        s.synchronize();
      }
      EXPECT_EQ(narrow.values(), expected) << name;
      EXPECT_NE(expected, rounded(wide.values(), type)) << name;
    }
}

// Updates of 2^-12 on weights of 1, whose neighbours in BF16 are 2^-7 away.
TEST(StochasticRounding, KeepsSmallUpdatesInExpectation) {
  constexpr int weights = 4096, updates = 256;
  const auto mean_and_variance = [&](const std::string& masters, bool to_nearest) {
    const Stream stream = Stream::create({DeviceType::cpu, 0});
    nn::Parameter p;
    p.name = "w";
    p.placement = shard::Placement::whole("w", {64, 64});
    p.shape = {1, 64, 64};
    parallel::BucketEngine engine({&p}, make_self(), {.param_dtype = DType::bf16}, stream);
    parallel::FlatParameters& flat = engine.flat();
    test::write(flat, {std::vector<float>(weights, 1.0f)}, flat.values, stream);
    auto optimizer = make_optimizer(
        {.type = "sgd", .momentum = 0, .weight_decay = 0, .master_weights = masters}, flat, stream);
    test::write(flat, {std::vector<float>(weights, -1.0f)}, flat.grads, stream);
    for (std::uint64_t t = 0; t < updates; ++t) {
      optimizer->step(stream, {0x1p-12, 1.0, 11, t});
      if (to_nearest) optimizer->refresh_masters(stream);  // forgets what rounding lost
    }
    const Logicals values = test::read(flat, flat.values, stream);
    double mean = 0, variance = 0;
    for (const float v : values[0]) mean += static_cast<double>(v) / weights;
    for (const float v : values[0]) variance += std::pow(v - mean, 2) / (weights - 1);
    return std::pair{mean, variance};
  };
  EXPECT_EQ(mean_and_variance("fp32", false), (std::pair{1.0625, 0.0}));
  EXPECT_EQ(mean_and_variance("fp32", true), (std::pair{1.0, 0.0}));  // to nearest
  // 256 independent steps of 2^-7, each with probability 1/32.
  const double expected_variance = 0x1p-14 * updates * (1 / 32.0) * (31 / 32.0);
  const auto [mean, variance] = mean_and_variance("none", false);
  EXPECT_LE(std::abs(mean - 1.0625), 4 * std::sqrt(expected_variance / weights));
  EXPECT_NEAR(variance / expected_variance, 1.0, 0.1);
}

TEST(WeightAverage, IsTheMastersOrTheValues) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const char* masters : {"fp32", "none"}) {
      Job job({.master_weights = masters}, type, LogicalModel(true, 3).random(1));
      WeightAverage average(0.75, *job.optimizer, job.flat(), job.stream);
      const auto read_owned = [&](const Tensor& t) { return test::read(job.flat(), t, job.stream); };
      Logicals expected = job.values();
      EXPECT_EQ(read_owned(average.owned()), expected);
      for (int t = 0; t < 3; ++t) {
        job.step(0.1);
        average.update(*job.optimizer, job.stream);
        const Logicals now = job.state("master").defined() ? read_owned(job.state("master")) : job.values();
        for (std::size_t l = 0; l < now.size(); ++l)
          for (std::size_t e = 0; e < now[l].size(); ++e)
            expected[l][e] = std::fma(0.75f, expected[l][e], 0.25f * now[l][e]);
        EXPECT_EQ(read_owned(average.owned()), expected);
      }
      average.to_gradients(job.flat(), job.stream);
      EXPECT_EQ(read_owned(job.flat().grads), expected);
    }
}

TEST(WeightAverage, RefusesADecayOutOfRange) {
  Job job({}, DType::f32, LogicalModel(true, 3).random(1));
  for (const double decay : {0.0, 1.0, -0.5, static_cast<double>(NAN)})
    EXPECT_MESSAGE(WeightAverage(decay, *job.optimizer, job.flat(), job.stream), ConfigError, "ema.decay = ");
}

}  // namespace
}  // namespace shoal::optim
