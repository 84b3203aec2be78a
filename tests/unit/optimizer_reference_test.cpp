// Ten steps of every optimizer against FP64, each logical tensor to 1e-6 in the 2-norm; and the same bits however the
// logical tensors are stored.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/threads.hpp"
#include "shoal/optim/optimizer.hpp"
#include "support/logical.hpp"
#include "support/optimizers.hpp"

namespace shoal::optim {
namespace {

using test::LogicalModel;
using test::Logicals;
using test::Numbers;
using test::ReferenceTensor;

constexpr double grad_scale = 0.25;
double rate(int t) { return 0.02 / t; }
std::uint64_t gradients_of(int t) { return 100 + static_cast<std::uint64_t>(t); }

// Rules that cut a fused piece in the middle of a chunk.
std::vector<ParameterGroup> rules() {
  ParameterGroup k, vectors;
  k.name = "keys";
  k.pattern = "attention.k";
  k.lr_scale = 0.5;
  k.weight_decay = 0.3;
  k.beta1 = 0.8;
  k.momentum = 0.7;
  vectors.name = "vectors";
  vectors.dims = 1;
  vectors.eps = 1e-3;
  vectors.beta2 = 0.9;
  return {k, vectors};
}

std::vector<ReferenceTensor> reference_tensors(const LogicalModel& model, const OptimizerConfig& c,
                                               const Logicals& values) {
  using enum nn::ParameterKind;
  std::vector<ReferenceTensor> all;
  for (const LogicalModel::Entry& e : model.logical()) {
    const Shape& shape = e.info().shape;
    ReferenceTensor x{.rows = shape[0],
                      .columns = shape.rank() == 2 ? shape[1] : 1,
                      .rank = shape.rank(),
                      .hidden_matrix = e.parameter->kind == matrix,
                      .p = {}};
    const bool decays = e.parameter->kind == matrix || e.parameter->kind == head;
    x.decay = decays ? c.weight_decay : 0.0;
    x.beta1 = c.beta1;
    x.beta2 = c.beta2;
    x.eps = c.eps;
    x.momentum = c.momentum;
    if (!c.groups.empty() && e.info().name == "attention.k") {
      x.lr_scale = 0.5;
      x.decay = 0.3;
      x.beta1 = 0.8;
      x.momentum = 0.7;
    } else if (!c.groups.empty() && shape.rank() == 1) {
      x.eps = 1e-3;
      x.beta2 = 0.9;
    }
    const auto& p = values[all.size()];
    x.p.assign(p.begin(), p.end());
    all.push_back(std::move(x));
  }
  return all;
}

// The values after some steps.
Logicals train(const LogicalModel& model, const OptimizerConfig& c, int steps, DType type = DType::f32) {
  set_num_threads(1);  // tests/dist has others
  const Stream stream = Stream::create({DeviceType::cpu, 0});
  parallel::BucketEngine engine(model.list(), make_self(), {.param_dtype = type}, stream);
  parallel::FlatParameters& flat = engine.flat();
  test::write(flat, model.random(1), flat.values, stream);
  auto optimizer = make_optimizer(c, flat, stream);
  for (int t = 1; t <= steps; ++t) {
    test::write(flat, model.random(gradients_of(t), 3.0), flat.grads, stream);
    optimizer->step(stream, {rate(t), grad_scale, 7, static_cast<std::uint64_t>(t)});
  }
  EXPECT_EQ(optimizer->applied(), steps);
  stream.synchronize();
  // Padding stays zero: writing what was read changes nothing.
  const Logicals result = test::read(flat, flat.values, stream);
  const Tensor again = Tensor::empty(flat.values.shape(), type, stream);
  test::write(flat, result, again, stream);
  EXPECT_EQ(std::memcmp(again.data(), flat.values.data(), static_cast<std::size_t>(again.nbytes())), 0);
  return result;
}

std::vector<OptimizerConfig> configurations() {
  std::vector<OptimizerConfig> all = {
      {.type = "adamw"},
      {.type = "adamw", .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.3, .decay_embeddings = false},
      {.type = "adam"},
      {.type = "sgd", .momentum = 0},
      {.type = "sgd", .momentum = 0.9},
      {.type = "sgd", .momentum = 0.9, .nesterov = true},
      {.type = "lion", .beta1 = 0.9, .beta2 = 0.99},
      {.type = "lamb"},
      {.type = "adafactor"},
      {.type = "adafactor", .decay_rate = 0.7, .clip_threshold = 0.5, .scale_parameter = true},
      {.type = "muon", .momentum = 0.95},
      {.type = "muon", .newton_schulz_steps = 3, .muon_scale = "original"}};
  const std::size_t plain = all.size();
  for (std::size_t i = 0; i < plain; ++i) {
    all.push_back(all[i]);
    all.back().groups = rules();
  }
  return all;
}

std::string describe(const OptimizerConfig& c, std::size_t i) {
  return c.type + ", configuration " + std::to_string(i);
}

TEST(Optimizers, TenStepsAgreeWithFp64) {
  const LogicalModel model(true, 3);
  const std::vector<OptimizerConfig> all = configurations();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Logicals got = train(model, all[i], 10);
    std::vector<ReferenceTensor> expected = reference_tensors(model, all[i], model.random(1));
    const test::ReferenceOptimizer reference(all[i]);
    for (int t = 1; t <= 10; ++t) {
      const Logicals gradients = model.random(gradients_of(t), 3.0);
      for (std::size_t l = 0; l < expected.size(); ++l) {
        Numbers g(gradients[l].begin(), gradients[l].end());
        for (double& x : g) x *= grad_scale;
        reference.step(expected[l], g, rate(t), t);
      }
    }
    double worst = 0;
    for (std::size_t l = 0; l < expected.size(); ++l) {
      double difference = 0, size = 0;
      for (std::size_t e = 0; e < expected[l].p.size(); ++e) {
        difference += std::pow(got[l][e] - expected[l].p[e], 2);
        size += std::pow(expected[l].p[e], 2);
      }
      EXPECT_LE(std::sqrt(difference), 1e-6 * std::sqrt(size))
          << describe(all[i], i) << ": " << model.logical()[l].info().name;
      if (size > 0) worst = std::max(worst, std::sqrt(difference / size));
    }
    std::printf("%s: %.1e\n", describe(all[i], i).c_str(), worst);
  }
}

TEST(Optimizers, FusingAndPiecesChangeNoBits) {
  std::vector<OptimizerConfig> all = configurations();
  for (std::size_t i = all.size() / 2; i < all.size(); ++i)  // those with rules
    for (const DType type : {DType::f32, DType::bf16, DType::f16})
      for (const char* masters : {"fp32", "none"}) {
        if (type == DType::f32 && masters[0] == 'n') continue;
        OptimizerConfig& c = all[i];
        c.master_weights = masters;
        const Logicals expected = train(LogicalModel(false, 1), c, 3, type);
        for (const auto& [fused, pieces] : {std::pair{false, 3}, {true, 1}, {true, 3}})
          EXPECT_EQ(train(LogicalModel(fused, pieces), c, 3, type), expected)
              << describe(c, i) << ", " << name(type) << ", masters " << masters
              << (fused ? ", fused, " : ", ") << pieces << " pieces";
      }
}

}  // namespace
}  // namespace shoal::optim
