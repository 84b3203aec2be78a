#include "shoal/optim/groups.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>

#include "optim/runs.hpp"
#include "shoal/core/error.hpp"

namespace shoal::optim {
namespace {

bool is_tied(const nn::Parameter& p) {
  const auto& axes = p.placement.partial_axes;
  return std::find(axes.begin(), axes.end(), "use") != axes.end();
}

bool covers(const ParameterGroup& g, const nn::Parameter& p, const shard::LogicalTensor& t) {
  if (!g.kinds.empty() && std::find(g.kinds.begin(), g.kinds.end(), p.kind) == g.kinds.end()) return false;
  if (!g.pattern.empty() && fnmatch(g.pattern.c_str(), t.name.c_str(), 0) != 0) return false;
  if (g.dims != 0 && g.dims != t.shape.rank()) return false;
  return !g.tied || *g.tied == is_tied(p);
}

std::string describe(const ParameterGroup& g, std::size_t index) {
  std::string text = fmt::format("optimizer.groups[{}]", index);
  if (!g.name.empty()) text += fmt::format(" (\"{}\")", g.name);
  return text;
}

// What a rule asks for, for the message of one that covers nothing.
std::string conditions(const ParameterGroup& g) {
  std::string text;
  const auto add = [&](const std::string& s) { text += (text.empty() ? "" : ", ") + s; };
  static constexpr const char* kinds[] = {"matrix", "embedding", "norm", "bias", "head"};
  for (const nn::ParameterKind k : g.kinds) add(fmt::format("kind {}", kinds[static_cast<int>(k)]));
  if (!g.pattern.empty()) add(fmt::format("name \"{}\"", g.pattern));
  if (g.dims != 0) add(fmt::format("dims {}", g.dims));
  if (g.tied) add(fmt::format("tied {}", *g.tied));
  return text;
}

void check_rule(const ParameterGroup& g, std::size_t index) {
  const auto wrong = [&](const char* what, double value, const char* expected) {
    throw ConfigError(fmt::format("{}: {} = {}: expected {}", describe(g, index), what, value, expected));
  };
  if (g.dims < 0 || g.dims > 2) wrong("dims", g.dims, "1 (vectors) or 2 (matrices)");
  for (const auto& [name, value] : {std::pair{"lr_scale", g.lr_scale}, {"weight_decay", g.weight_decay}})
    if (value && (!std::isfinite(*value) || *value < 0)) wrong(name, *value, "a finite number, 0 or more");
  for (const auto& [name, value] :
       {std::pair{"beta1", g.beta1}, {"beta2", g.beta2}, {"momentum", g.momentum}})
    if (value && !(*value >= 0 && *value < 1)) wrong(name, *value, "0 or more and less than 1");
  if (g.eps && (!std::isfinite(*g.eps) || !(static_cast<float>(*g.eps) > 0)))
    wrong("eps", *g.eps, "a positive number (in FP32)");
}

void apply(const ParameterGroup& g, Settings& s) {
  s.lr_scale = g.lr_scale.value_or(s.lr_scale);
  s.weight_decay = g.weight_decay.value_or(s.weight_decay);
  s.beta1 = g.beta1.value_or(s.beta1);
  s.beta2 = g.beta2.value_or(s.beta2);
  s.eps = g.eps.value_or(s.eps);
  s.momentum = g.momentum.value_or(s.momentum);
  s.matrix = s.matrix && g.muon.value_or(true);
}

}  // namespace

std::vector<ParameterGroup> default_groups(double weight_decay, bool decay_embeddings) {
  using enum nn::ParameterKind;
  const auto group = [](const char* name, std::vector<nn::ParameterKind> kinds, double decay) {
    ParameterGroup g;
    g.name = name;
    g.kinds = std::move(kinds);
    g.weight_decay = decay;
    return g;
  };
  return {group("matrices", {matrix, head}, weight_decay),
          group("embeddings", {embedding}, decay_embeddings ? weight_decay : 0.0),
          group("norms and biases", {norm, bias}, 0.0)};
}

std::vector<Logical> logical_tensors(const OptimizerConfig& c, const parallel::FlatParameters& flat) {
  for (std::size_t i = 0; i < c.groups.size(); ++i) check_rule(c.groups[i], i);
  const std::vector<ParameterGroup> defaults = default_groups(c.weight_decay, c.decay_embeddings);
  std::vector<char> used(c.groups.size(), 0);
  std::vector<Logical> all;
  for (std::size_t p = 0; p < flat.parameters.size(); ++p) {
    const nn::Parameter& parameter = *flat.parameters[p];
    const shard::Placement& placement = parameter.placement;
    if (static_cast<std::int64_t>(placement.pieces.size()) != parameter.pieces() ||
        placement.piece_numel != parameter.shape.tail().numel())
      throw ConfigError(fmt::format("parameter {} of shape {}: its placement has {} pieces of {} elements",
                                    parameter.name, parameter.shape.str(), placement.pieces.size(),
                                    placement.piece_numel));
    for (std::size_t t = 0; t < parameter.placement.logical.size(); ++t) {
      const shard::LogicalTensor& info = parameter.placement.logical[t];
      Settings s{1, 0, c.beta1, c.beta2, c.eps, c.momentum, false};
      s.matrix = parameter.kind == nn::ParameterKind::matrix && info.shape.rank() == 2;
      for (const ParameterGroup& g : defaults)
        if (covers(g, parameter, info)) apply(g, s);
      bool first = true;
      for (std::size_t i = 0; i < c.groups.size(); ++i) {
        if (!covers(c.groups[i], parameter, info)) continue;
        used[i] = 1;
        if (std::exchange(first, false)) apply(c.groups[i], s);
      }
      all.push_back({static_cast<std::int64_t>(p), static_cast<int>(t), s});
    }
  }
  for (std::size_t i = 0; i < used.size(); ++i)
    if (!used[i])
      throw ConfigError(
          fmt::format("{} covers no parameter: {}", describe(c.groups[i], i),
                      conditions(c.groups[i]).empty() ? "there are none" : conditions(c.groups[i])));
  return all;
}

}  // namespace shoal::optim
