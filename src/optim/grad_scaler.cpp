#include "shoal/optim/grad_scaler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "shoal/core/error.hpp"

namespace shoal::optim {
namespace {

constexpr double most =
    0x1p100;  // far above FP16's range, far below FP32's largest: its product stays finite

}  // namespace

void check(const ScalerConfig& c) {
  const auto wrong = [](const char* key, auto value, const std::string& expected) {
    throw ConfigError(fmt::format("scaler.{} = {}: expected {}", key, value, expected));
  };
  if (c.mode != "dynamic" && c.mode != "static" && c.mode != "off")
    throw ConfigError(fmt::format("scaler.mode = \"{}\": expected dynamic, static or off", c.mode));
  if (!(c.minimum > 0) || !(c.minimum <= most)) wrong("minimum", c.minimum, "a number above 0");
  if (!(c.initial > 0) || !(c.initial <= most))
    wrong("initial", c.initial, "a number above 0, at most 2^100");
  if (!(c.growth >= 1) || !std::isfinite(c.growth)) wrong("growth", c.growth, "1 or more");
  if (!(c.backoff > 0 && c.backoff < 1)) wrong("backoff", c.backoff, "above 0 and below 1");
  if (c.window < 1) wrong("window", c.window, "1 step or more");
  if (c.hysteresis < 1) wrong("hysteresis", c.hysteresis, "1 overflow or more");
  if (c.give_up < 1) wrong("give_up", c.give_up, "1 overflow or more");
  if (c.mode == "dynamic" && c.initial < c.minimum)
    wrong("initial", c.initial, fmt::format("at least scaler.minimum = {}", c.minimum));
}

GradScaler::GradScaler(const ScalerConfig& config) : config_(config) {
  check(config);
  if (config.mode != "off") scale_ = config.initial;
  patience_ = config.hysteresis;
}

void GradScaler::update(bool overflow) {
  if (!enabled()) return;
  const bool dynamic = config_.mode == "dynamic";
  if (!overflow) {
    hopeless_ = 0;
    if (++clean_ < config_.window) return;
    clean_ = 0;
    patience_ = config_.hysteresis;
    if (dynamic) scale_ = std::min(scale_ * config_.growth, most);
    return;
  }
  clean_ = 0;
  const double least = dynamic ? config_.minimum : scale_;
  hopeless_ = scale_ <= least ? hopeless_ + 1 : 0;
  if (dynamic && --patience_ <= 0) scale_ = std::max(scale_ * config_.backoff, least);
}

void GradScaler::set_state(const State& s) {
  const double least = config_.mode == "dynamic" ? config_.minimum : 0.0;
  if (!(s.scale > 0) || !(s.scale >= least) || !(s.scale <= most) || s.clean < 0 || s.hopeless < 0 ||
      s.patience > config_.hysteresis)
    throw ConfigError(
        fmt::format("a gradient scaler's state of scale {}, {} clean steps, patience {} of {}: impossible",
                    s.scale, s.clean, s.patience, config_.hysteresis));
  if (config_.mode == "dynamic") scale_ = s.scale;
  clean_ = s.clean;
  patience_ = s.patience;
  hopeless_ = s.hopeless;
}

}  // namespace shoal::optim
