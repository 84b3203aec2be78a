#include "shoal/optim/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "shoal/core/error.hpp"

namespace shoal::optim {
namespace {

std::int64_t decay_steps(const ScheduleConfig& c) {
  return std::llround(c.decay_fraction * static_cast<double>(c.steps));
}

// From lr at `first` to min_lr at `last`, for first <= t < last. std::lerp is exact at both ends.
double falling(const ScheduleConfig& c, std::int64_t t, std::int64_t first, std::int64_t last, bool cosine) {
  const double x = static_cast<double>(t - first) / static_cast<double>(last - first);
  const double share = cosine ? (1.0 + std::cos(std::numbers::pi * x)) / 2.0 : 1.0 - x;
  return std::lerp(c.min_lr, c.lr, share);
}

}  // namespace

double learning_rate(const ScheduleConfig& c, std::int64_t t) {
  if (t < 0) throw ConfigError(fmt::format("the learning rate of update {}: expected 0 or more", t));
  if (t < c.warmup) return c.lr * (static_cast<double>(t + 1) / static_cast<double>(c.warmup));
  if (c.type == "constant") return c.lr;
  if (t >= c.steps) return c.min_lr;
  if (c.type == "cosine" || c.type == "linear") return falling(c, t, c.warmup, c.steps, c.type == "cosine");
  if (c.type == "wsd") {
    const std::int64_t first = std::max(c.steps - decay_steps(c), c.warmup);
    return t < first ? c.lr : falling(c, t, first, c.steps, false);
  }
  throw ConfigError(
      fmt::format("optimizer.schedule = \"{}\": expected cosine, linear, wsd or constant", c.type));
}

void check(const ScheduleConfig& c) {
  if (c.type != "cosine" && c.type != "linear" && c.type != "wsd" && c.type != "constant")
    throw ConfigError(
        fmt::format("optimizer.schedule = \"{}\": expected cosine, linear, wsd or constant", c.type));
  if (!std::isfinite(c.lr) || c.lr < 0)
    throw ConfigError(fmt::format("optimizer.lr = {}: expected a finite number, 0 or more", c.lr));
  if (!std::isfinite(c.min_lr) || c.min_lr < 0 || c.min_lr > c.lr)
    throw ConfigError(fmt::format("optimizer.min_lr = {}: expected 0 <= min_lr <= lr = {}", c.min_lr, c.lr));
  if (c.warmup < 0)
    throw ConfigError(fmt::format("optimizer.warmup = {} updates: expected 0 or more", c.warmup));
  if (c.type == "constant") return;
  if (c.steps < 1)
    throw ConfigError(fmt::format("a {} schedule over {} updates: expected 1 or more", c.type, c.steps));
  if (c.type == "wsd" && !(c.decay_fraction >= 0 && c.decay_fraction <= 1))
    throw ConfigError(fmt::format("the decay of a wsd schedule takes {} of its updates: expected 0 to 1",
                                  c.decay_fraction));
}

std::optional<std::string> shortened(const ScheduleConfig& c) {
  const std::int64_t decay = c.type == "wsd" ? decay_steps(c) : 0;
  if (c.warmup > c.steps)
    return fmt::format(
        "optimizer.warmup = {} is longer than train.steps = {}: the learning rate is still rising at the "
        "end, "
        "to {} of optimizer.lr = {}",
        c.warmup, c.steps, learning_rate(c, std::max<std::int64_t>(0, c.steps - 1)), c.lr);
  if (c.warmup > c.steps - decay)
    return fmt::format(
        "optimizer.warmup = {} leaves {} of the {} updates in which optimizer.decay_fraction = {} of "
        "train.steps = {} would decay: the decay begins later",
        c.warmup, c.steps - c.warmup, decay, c.decay_fraction, c.steps);
  return std::nullopt;
}

}  // namespace shoal::optim
