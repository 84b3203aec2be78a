// AdamW and SGD over flat buffers. Scalars are computed in double on the host and rounded once; the
// arithmetic on elements is in the kernels.
#include "shoal/optim/optimizer.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "optim/runs.hpp"
#include "shoal/core/error.hpp"
#include "shoal/ops/optimizer.hpp"

namespace shoal::optim {
namespace {

void check(const OptimizerConfig& c) {
  if (c.type != "adamw" && c.type != "sgd")
    throw ConfigError(fmt::format("optimizer.type = \"{}\": expected adamw or sgd", c.type));
  for (const auto& [name, beta] : {std::pair{"beta1", c.beta1}, {"beta2", c.beta2}, {"momentum", c.momentum}})
    if (!(beta >= 0 && beta < 1))
      throw ConfigError(fmt::format("optimizer: {} = {}: expected 0 <= {} < 1", name, beta, name));
  // eps is rounded to FP32 for the kernel: 0 there would divide 0 by 0 where no gradient ever arrives.
  if (!std::isfinite(c.eps) || !(static_cast<float>(c.eps) > 0))
    throw ConfigError(fmt::format("optimizer.eps = {}: expected a positive number (in FP32)", c.eps));
  if (!std::isfinite(c.weight_decay) || c.weight_decay < 0)
    throw ConfigError(
        fmt::format("optimizer.weight_decay = {}: expected a finite number, 0 or more", c.weight_decay));
  if (c.nesterov && c.momentum == 0)
    throw ConfigError("optimizer: nesterov needs momentum above 0, which is 0");
}

class FlatOptimizer : public Optimizer {
 public:
  FlatOptimizer(const OptimizerConfig& config, const parallel::FlatParameters& flat)
      : config_(config),
        values_(flat.values),
        grads_(flat.grads),
        runs_(make_runs(flat, default_groups(config.weight_decay, config.decay_embeddings))) {}
  std::int64_t applied() const override { return applied_; }

 protected:
  static Tensor part(const Tensor& t, std::int64_t first, const Run& run) {
    return t.slice(first, first + run.elements.size());
  }
  Tensor values(const Run& run) const { return part(values_, run.elements.first, run); }
  Tensor grads(const Run& run) const { return part(grads_, run.elements.first, run); }

  OptimizerConfig config_;
  Tensor values_, grads_;
  std::vector<Run> runs_;
  std::int64_t applied_ = 0;
};

class AdamW final : public FlatOptimizer {
 public:
  AdamW(const OptimizerConfig& config, const parallel::FlatParameters& flat, const Stream& stream)
      : FlatOptimizer(config, flat),
        m_(Tensor::zeros({owned_elements(flat)}, DType::f32, stream)),
        v_(Tensor::zeros({owned_elements(flat)}, DType::f32, stream)) {}

  void step(const Stream& stream, double lr, double grad_scale) override {
    const double t = static_cast<double>(++applied_);
    const double bias1 = 1 - std::pow(config_.beta1, t), bias2 = 1 - std::pow(config_.beta2, t);
    ops::AdamWStep s{};
    s.beta1 = static_cast<float>(config_.beta1);
    s.one_minus_beta1 = static_cast<float>(1 - config_.beta1);
    s.beta2 = static_cast<float>(config_.beta2);
    s.one_minus_beta2 = static_cast<float>(1 - config_.beta2);
    s.step_size = static_cast<float>(lr / bias1);
    s.inv_sqrt_bias2 = static_cast<float>(1 / std::sqrt(bias2));
    s.eps = static_cast<float>(config_.eps);
    s.grad_scale = static_cast<float>(grad_scale);
    for (const Run& run : runs_) {
      s.decay = static_cast<float>(1 - lr * run.weight_decay);
      ops::adamw_step(stream, values(run), grads(run), part(m_, run.state, run), part(v_, run.state, run), s);
    }
  }

  std::vector<std::pair<std::string, Tensor>> state() override { return {{"m", m_}, {"v", v_}}; }

 private:
  Tensor m_, v_;
};

class Sgd final : public FlatOptimizer {
 public:
  Sgd(const OptimizerConfig& config, const parallel::FlatParameters& flat, const Stream& stream)
      : FlatOptimizer(config, flat) {
    if (config.momentum > 0) momentum_ = Tensor::zeros({owned_elements(flat)}, DType::f32, stream);
  }

  void step(const Stream& stream, double lr, double grad_scale) override {
    ops::SgdStep s{};
    s.lr = static_cast<float>(lr);
    s.momentum = static_cast<float>(config_.momentum);
    s.grad_scale = static_cast<float>(grad_scale);
    s.nesterov = config_.nesterov;
    s.first = applied_++ == 0;
    for (const Run& run : runs_) {
      s.weight_decay = static_cast<float>(run.weight_decay);
      ops::sgd_step(stream, values(run), grads(run),
                    momentum_.defined() ? part(momentum_, run.state, run) : Tensor(), s);
    }
  }

  std::vector<std::pair<std::string, Tensor>> state() override {
    if (!momentum_.defined()) return {};
    return {{"momentum", momentum_}};
  }

 private:
  Tensor momentum_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, parallel::FlatParameters& flat,
                                          const Stream& stream) {
  check(config);
  if (config.type == "sgd") return std::make_unique<Sgd>(config, flat, stream);
  return std::make_unique<AdamW>(config, flat, stream);
}

std::int64_t optimizer_state_bytes(const OptimizerConfig& config, std::int64_t owned_elements) {
  check(config);
  const std::int64_t tensors = config.type == "adamw" ? 2 : config.momentum > 0 ? 1 : 0;
  return tensors * owned_elements * size_of(DType::f32);
}

}  // namespace shoal::optim
