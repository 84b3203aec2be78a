#include "shoal/shard/split.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "shoal/core/error.hpp"

namespace shoal::shard {

Range split(std::int64_t n, std::int64_t parts, std::int64_t i) {
  if (n < 0 || i < 0 || i >= parts)
    throw ConfigError(
        fmt::format("part {} of {} elements in {} parts: expected 0 <= part < parts and "
                    "0 or more elements",
                    i, n, parts));
  const std::int64_t each = n / parts, more = n % parts;
  const std::int64_t first = i * each + std::min(i, more);
  return {first, first + each + (i < more ? 1 : 0)};
}

Range split_aligned(std::int64_t n, std::int64_t parts, std::int64_t i, std::int64_t grain) {
  if (n < 0 || grain < 1)
    throw ConfigError(
        fmt::format("{} elements in grains of {}: expected 0 or more elements and a grain of "
                    "1 or more",
                    n, grain));
  const Range grains = split(n / grain, parts, i);
  return {grains.first * grain, i == parts - 1 ? n : grains.last * grain};
}

std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  if (n < 0 || multiple < 1)
    throw ConfigError(
        fmt::format("{} rounded up to a multiple of {}: expected 0 or more, and a multiple of "
                    "1 or more",
                    n, multiple));
  return (n + multiple - 1) / multiple * multiple;
}

}  // namespace shoal::shard
