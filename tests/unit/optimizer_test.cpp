// AdamW and SGD through flat parameters, against FP64.
#include "shoal/optim/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"
#include "src/optim/runs.hpp"
#include "support/expect_message.hpp"
#include "support/parameters.hpp"

namespace shoal::optim {
namespace {

using parallel::BucketEngine;
using test::Parameters;

// Parameters of every kind, with values and gradients that are set by hand: no step of the engine is needed.
struct Fixture {
  Stream stream = Stream::create({DeviceType::cpu, 0});
  Parameters parameters = Parameters::odd();
  BucketEngine engine{parameters.list(), make_self(), {}, stream};

  template <class F>
  void fill(F&& value_and_grad) {
    for (std::size_t p = 0; p < parameters.size(); ++p)
      for (std::int64_t i = 0; i < parameters[p].numel(); ++i)
        value_and_grad(p, i, test::element(parameters[p].value, i), test::element(parameters[p].grad[0], i));
  }
};

bool decays(const nn::Parameter& p) { return p.kind == nn::ParameterKind::matrix; }

TEST(AdamW, ZeroGradientsLeaveNormsAndBiasesAndShrinkMatricesByLrTimesDecay) {
  for (const bool decay_embeddings : {false, true}) {
    Fixture f;
    f.fill([](std::size_t p, std::int64_t i, float& value, float& grad) {
      value = 0.37f + static_cast<float>(p) - 0.01f * static_cast<float>(i);
      grad = 0;
    });
    auto optimizer = make_optimizer({.weight_decay = 0.1, .decay_embeddings = decay_embeddings},
                                    f.engine.flat(), f.stream);
    optimizer->step(f.stream, 1.0, 1.0);
    f.fill([&](std::size_t p, std::int64_t i, float& value, float&) {
      const float before = 0.37f + static_cast<float>(p) - 0.01f * static_cast<float>(i);
      const bool decayed = decays(f.parameters[p]) ||
                           (decay_embeddings && f.parameters[p].kind == nn::ParameterKind::embedding);
      ASSERT_EQ(value, decayed ? before * 0.9f : before) << f.parameters[p].name << i;
    });
    EXPECT_EQ(optimizer->applied(), 1);
  }
}

// g(t, p, i): a gradient that changes sign and size.
double gradient(int t, std::size_t p, std::int64_t i) {
  return std::sin(0.7 * t + 1.3 * static_cast<double>(i) + static_cast<double>(p)) *
         (1 + static_cast<double>(i % 7));
}

// Runs 20 steps beside `reference`(p, value, g, m, v, t, lr) in FP64 and compares in the 2-norm of each tensor.
template <class F>
void expect_agrees(const OptimizerConfig& config, F&& reference) {
  Fixture f;
  struct State {
    double value, m = 0, v = 0;
  };
  std::vector<std::vector<State>> states(f.parameters.size());
  f.fill([&](std::size_t p, std::int64_t i, float& value, float&) {
    value = static_cast<float>(std::cos(0.1 * static_cast<double>(i) + static_cast<double>(p)));
    states[p].push_back({value});
  });
  auto optimizer = make_optimizer(config, f.engine.flat(), f.stream);
  const double grad_scale = 0.25;
  for (int t = 1; t <= 20; ++t) {
    const double lr = 0.01 / t;
    f.fill([&](std::size_t p, std::int64_t i, float&, float& grad) {
      grad = static_cast<float>(gradient(t, p, i));
      State& s = states[p][i];
      reference(decays(f.parameters[p]) ? config.weight_decay : 0.0, s.value, grad * grad_scale, s.m, s.v, t,
                lr);
    });
    optimizer->step(f.stream, lr, grad_scale);
  }
  std::vector<double> difference(f.parameters.size()), size(f.parameters.size());
  f.fill([&](std::size_t p, std::int64_t i, float& value, float&) {
    difference[p] += std::pow(value - states[p][i].value, 2);
    size[p] += std::pow(states[p][i].value, 2);
  });
  for (std::size_t p = 0; p < f.parameters.size(); ++p)
    EXPECT_LE(std::sqrt(difference[p]), 5e-7 * std::sqrt(size[p])) << f.parameters[p].name;
  for (const shard::Segment& s : f.engine.flat().layout.segments)
    for (std::int64_t i = s.offset + s.numel; i < s.offset + s.padded(); ++i)
      ASSERT_EQ(f.engine.flat().values.as<float>()[i], 0.0f) << "padding at " << i;
}

TEST(AdamW, TwentyStepsAgreeWithFp64) {
  for (const double beta2 : {0.95, 0.999}) {
    const OptimizerConfig c{.beta1 = 0.9, .beta2 = beta2, .eps = 1e-6, .weight_decay = 0.3};
    expect_agrees(c, [&](double decay, double& p, double g, double& m, double& v, int t, double lr) {
      m = c.beta1 * m + (1 - c.beta1) * g;
      v = c.beta2 * v + (1 - c.beta2) * g * g;
      const double mh = m / (1 - std::pow(c.beta1, t)), vh = v / (1 - std::pow(c.beta2, t));
      p = p - lr * decay * p - lr * mh / (std::sqrt(vh) + c.eps);
    });
  }
}

TEST(Sgd, TwentyStepsAgreeWithFp64) {
  for (const double momentum : {0.0, 0.9})
    for (const bool nesterov : {false, true}) {
      if (nesterov && momentum == 0) continue;
      const OptimizerConfig c{.type = "sgd", .momentum = momentum, .nesterov = nesterov, .weight_decay = 0.1};
      expect_agrees(c, [&](double decay, double& p, double g, double& buffer, double&, int t, double lr) {
        g += decay * p;
        buffer = t == 1 ? g : momentum * buffer + g;
        p -= lr * (nesterov ? g + momentum * buffer : buffer);
      });
    }
}

// Neighbours of one group make one run; groups are cut at segments, ownership anywhere.
TEST(Runs, MergeNeighboursOfAGroup) {
  Fixture f;
  const auto tensors = optim::logical_tensors({.weight_decay = 0.1}, f.engine.flat());
  const auto ranges = [&](std::vector<shard::Range> owned) {
    parallel::FlatParameters flat = f.engine.flat();
    flat.owned = std::move(owned);
    std::vector<std::vector<std::int64_t>> chunks;  // first, last, state (in chunks), decays
    for (const optim::Run& r : make_runs(flat, tensors))
      chunks.push_back(
          {r.elements.first / 256, r.elements.last / 256, r.state / 256, r.settings.weight_decay > 0});
    return chunks;
  };
  // embedding 0-10, norm -11, qkv -17, bias -19, weight -21, large -60, last -61
  EXPECT_EQ(ranges({{0, 61 * 256}}),
            (std::vector<std::vector<std::int64_t>>{
                {0, 11, 0, 0}, {11, 17, 11, 1}, {17, 19, 17, 0}, {19, 60, 19, 1}, {60, 61, 60, 0}}));
  EXPECT_EQ(ranges({{5 * 256, 12 * 256}, {12 * 256, 13 * 256}, {30 * 256, 61 * 256}}),
            (std::vector<std::vector<std::int64_t>>{
                {5, 11, 0, 0}, {11, 12, 6, 1}, {12, 13, 7, 1}, {30, 60, 8, 1}, {60, 61, 38, 0}}));
  EXPECT_TRUE(ranges({}).empty());
}

TEST(Optimizer, StateCoversTheOwnedRangesAndItsBytesAreKnown) {
  Fixture f;
  const std::int64_t n = f.engine.flat().layout.numel;
  for (const OptimizerConfig& c :
       {OptimizerConfig{}, OptimizerConfig{.type = "sgd"}, OptimizerConfig{.type = "sgd", .momentum = 0},
        OptimizerConfig{.type = "adam"}, OptimizerConfig{.type = "lion"}, OptimizerConfig{.type = "lamb"},
        OptimizerConfig{.type = "adafactor"}, OptimizerConfig{.type = "muon"}}) {
    std::int64_t bytes = 0;
    for (const auto& [name, t] : make_optimizer(c, f.engine.flat(), f.stream)->state()) bytes += t.nbytes();
    EXPECT_EQ(bytes, optimizer_state_bytes(c, f.engine.flat())) << c.type;
    if (c.type != "adafactor" && c.type != "muon") {
      EXPECT_EQ(bytes, optimizer_state_bytes(c, n)) << c.type;
    }
  }
  EXPECT_EQ(optimizer_state_bytes({}, 512), 4096);
  EXPECT_EQ(optimizer_state_bytes({.type = "sgd", .momentum = 0}, 512), 0);
}

TEST(Optimizer, RefusesImpossibleNumbersAndNamesThem) {
  Fixture f;
  const auto make = [&](const OptimizerConfig& c) { return make_optimizer(c, f.engine.flat(), f.stream); };
  EXPECT_MESSAGE(make({.type = "adamx"}), ConfigError,
                 "\"adamx\": expected adamw, adam, sgd, lion, lamb, adafactor or muon");
  EXPECT_MESSAGE(make({.beta1 = 1.0}), ConfigError, "beta1 = 1: expected 0 <= beta1 < 1");
  EXPECT_MESSAGE(make({.beta2 = -0.1}), ConfigError, "beta2 = -0.1");
  EXPECT_MESSAGE(make({.beta2 = NAN}), ConfigError, "beta2 = nan");
  EXPECT_MESSAGE(make({.eps = 0}), ConfigError, "eps = 0");
  EXPECT_MESSAGE(make({.eps = 1e-60}), ConfigError, "eps = 1e-60");
  EXPECT_MESSAGE(make({.type = "sgd", .momentum = 1.5}), ConfigError, "momentum = 1.5");
  EXPECT_MESSAGE(make({.weight_decay = -1}), ConfigError, "weight_decay = -1");
  EXPECT_MESSAGE(make({.type = "sgd", .momentum = 0, .nesterov = true}), ConfigError,
                 "nesterov needs momentum");
  EXPECT_MESSAGE(make({.type = "adafactor", .decay_rate = 0}), ConfigError, "decay_rate = 0");
  EXPECT_MESSAGE(make({.type = "adafactor", .decay_rate = 1.5}), ConfigError, "decay_rate = 1.5");
  EXPECT_MESSAGE(make({.type = "adafactor", .clip_threshold = 0}), ConfigError, "clip_threshold = 0");
  EXPECT_MESSAGE(make({.type = "adafactor", .clip_threshold = INFINITY}), ConfigError,
                 "clip_threshold = inf");
  EXPECT_MESSAGE(make({.type = "muon", .newton_schulz_steps = 0}), ConfigError, "newton_schulz_steps = 0");
  EXPECT_MESSAGE(make({.type = "muon", .muon_scale = "rms"}), ConfigError,
                 "muon_scale = \"rms\": expected original or match_rms_adamw");
  EXPECT_MESSAGE(make({.master_weights = "bf16"}), ConfigError,
                 "master_weights = \"bf16\": expected fp32 or none");
  EXPECT_MESSAGE(make({})->set_applied(-1), ConfigError, "-1 applied updates");
}

}  // namespace
}  // namespace shoal::optim
