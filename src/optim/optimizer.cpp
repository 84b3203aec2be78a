// What optimizers there are, and the checks of their options.
#include "shoal/optim/optimizer.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>

#include "optim/flat.hpp"
#include "shoal/core/error.hpp"
#include "shoal/ops/optimizer.hpp"

namespace shoal::optim {
namespace {

struct Type {
  std::string_view name;
  std::unique_ptr<Optimizer> (*make)(const OptimizerConfig&, parallel::FlatParameters&, const Stream&);
};
constexpr std::array<Type, 7> types = {{{"adamw", make_adam},
                                        {"adam", make_adam},
                                        {"sgd", make_sgd},
                                        {"lion", make_lion},
                                        {"lamb", make_lamb},
                                        {"adafactor", make_adafactor},
                                        {"muon", make_muon}}};

const Type& type_of(const OptimizerConfig& c) {
  for (const Type& t : types)
    if (t.name == c.type) return t;
  throw ConfigError(fmt::format(
      "optimizer.type = \"{}\": expected adamw, adam, sgd, lion, lamb, adafactor or muon", c.type));
}

bool has_momentum(const OptimizerConfig& c) {
  if (c.momentum > 0) return true;
  for (const ParameterGroup& g : c.groups)
    if (g.momentum.value_or(0) > 0) return true;
  return false;
}

// f32 elements, masters left out, for each owned element, where only their count is known.
std::int64_t state_tensors(const OptimizerConfig& c) {
  if (c.type == "adamw" || c.type == "adam" || c.type == "lamb") return 2;
  if (c.type == "lion" || c.type == "muon") return 1;
  return c.type == "sgd" && has_momentum(c) ? 1 : 0;
}

}  // namespace

void check(const OptimizerConfig& c) {
  type_of(c);
  for (const auto& [name, beta] : {std::pair{"beta1", c.beta1}, {"beta2", c.beta2}, {"momentum", c.momentum}})
    if (!(beta >= 0 && beta < 1))
      throw ConfigError(fmt::format("optimizer: {} = {}: expected 0 <= {} < 1", name, beta, name));
  // eps is rounded to FP32 for the kernel: 0 there would divide 0 by 0 where no gradient ever arrives.
  if (!std::isfinite(c.eps) || !(static_cast<float>(c.eps) > 0))
    throw ConfigError(fmt::format("optimizer.eps = {}: expected a positive number (in FP32)", c.eps));
  if (!std::isfinite(c.weight_decay) || c.weight_decay < 0)
    throw ConfigError(
        fmt::format("optimizer.weight_decay = {}: expected a finite number, 0 or more", c.weight_decay));
  if (c.nesterov && c.type == "sgd" && !has_momentum(c))
    throw ConfigError("optimizer: nesterov needs momentum above 0, which is 0");
  if (!(c.decay_rate > 0 && c.decay_rate <= 1))
    throw ConfigError(fmt::format("optimizer.decay_rate = {}: expected above 0 and at most 1", c.decay_rate));
  if (!(c.clip_threshold > 0) || !std::isfinite(c.clip_threshold))
    throw ConfigError(
        fmt::format("optimizer.clip_threshold = {}: expected a number above 0", c.clip_threshold));
  if (c.newton_schulz_steps < 1 || c.newton_schulz_steps > 100)
    throw ConfigError(
        fmt::format("optimizer.newton_schulz_steps = {}: expected 1 to 100", c.newton_schulz_steps));
  if (c.muon_scale != "original" && c.muon_scale != "match_rms_adamw")
    throw ConfigError(
        fmt::format("optimizer.muon_scale = \"{}\": expected original or match_rms_adamw", c.muon_scale));
  if (c.master_weights != "fp32" && c.master_weights != "none")
    throw ConfigError(fmt::format("master_weights = \"{}\": expected fp32 or none", c.master_weights));
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, parallel::FlatParameters& flat,
                                          const Stream& stream) {
  check(config);
  return type_of(config).make(config, flat, stream);
}

std::int64_t optimizer_state_bytes(const OptimizerConfig& config, const parallel::FlatParameters& flat) {
  check(config);
  const std::vector<Logical> tensors = logical_tensors(config, flat);
  const std::int64_t owned = owned_elements(flat);
  std::int64_t n = state_tensors(config) * owned;
  if (config.type == "adafactor") n = adafactor_state_elements(tensors, flat);
  if (config.type == "muon") n = muon_state_elements(make_runs(flat, tensors));
  if (flat.values.dtype() != DType::f32 && config.master_weights == "fp32") n += owned;
  return n * size_of(DType::f32);
}

std::int64_t optimizer_state_bytes(const OptimizerConfig& config, std::int64_t owned_elements) {
  check(config);
  return state_tensors(config) * owned_elements * size_of(DType::f32);
}

void clip_by_value(parallel::FlatParameters& flat, double grad_scale, double limit, const Stream& stream) {
  if (!(limit > 0)) throw ConfigError(fmt::format("clipping to values of {}: expected above 0", limit));
  for (const shard::Range& r : flat.owned)
    ops::scale_clamp_(stream, flat.grads.slice(r.first, r.last), static_cast<float>(grad_scale),
                      static_cast<float>(limit));
}

}  // namespace shoal::optim
