#include "shoal/core/random.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "shoal/core/error.hpp"

namespace shoal {

double RandomKey::normal(std::uint64_t i) const {
  const std::uint64_t pair = i / 2 * 2;
  const double radius = std::sqrt(-2.0 * std::log(uniform(pair)));
  const double angle = 2.0 * std::numbers::pi * uniform(pair + 1);
  return radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

std::uint32_t dropout_threshold(double p) {
  if (!(p >= 0.0 && p < 1.0)) throw ConfigError(fmt::format("dropout {}: expected 0 <= p < 1", p));
  return static_cast<std::uint32_t>(std::min(std::round(p * 0x1p32), 0x1p32 - 1));
}

}  // namespace shoal
