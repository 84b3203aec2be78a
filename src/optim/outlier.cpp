#include "shoal/optim/outlier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "shoal/core/error.hpp"

namespace shoal::optim {

void check(const OutlierConfig& c) {
  if (!(c.zscore >= 0) || !std::isfinite(c.zscore))
    throw ConfigError(fmt::format("outliers.zscore = {}: expected 0 (off) or more", c.zscore));
  if (c.of != "loss" && c.of != "grad_norm")
    throw ConfigError(fmt::format("outliers.of = \"{}\": expected loss or grad_norm", c.of));
  if (c.minimum < 2)
    throw ConfigError(fmt::format("outliers.minimum = {}: expected 2 steps or more", c.minimum));
  if (c.window < c.minimum)
    throw ConfigError(fmt::format("outliers.window = {}: expected at least outliers.minimum = {} steps",
                                  c.window, c.minimum));
}

OutlierFilter::OutlierFilter(const OutlierConfig& config) : config_(config) { check(config); }

double OutlierFilter::zscore(double value) const {
  const auto n = static_cast<std::int64_t>(values_.size());
  if (n < config_.minimum) return 0.0;
  double sum = 0, squares = 0;
  for (const double v : values_) sum += v;
  const double mean = sum / static_cast<double>(n);
  for (const double v : values_) squares += (v - mean) * (v - mean);
  const double deviation = std::max(std::sqrt(squares / static_cast<double>(n - 1)), 1e-12 * std::abs(mean));
  return deviation > 0 ? (value - mean) / deviation : 0.0;
}

bool OutlierFilter::skip(double value) {
  if (!enabled()) return false;
  if (!std::isfinite(value) || zscore(value) > config_.zscore) return true;
  values_.push_back(value);
  if (static_cast<std::int64_t>(values_.size()) > config_.window) values_.erase(values_.begin());
  return false;
}

void OutlierFilter::set_values(std::vector<double> values) {
  if (static_cast<std::int64_t>(values.size()) > config_.window)
    throw ConfigError(
        fmt::format("{} values for a window of outliers.window = {}", values.size(), config_.window));
  values_ = std::move(values);
}

}  // namespace shoal::optim
