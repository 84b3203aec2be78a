// Ranges with remainders. Pure arithmetic.
#pragma once
#include <cstdint>

namespace shoal::shard {

struct Range {
  std::int64_t first = 0, last = 0;  // [first, last)
  std::int64_t size() const { return last - first; }
  bool operator==(const Range&) const = default;
};

// Part i of n elements in `parts` nearly equal parts: the first n % parts have one more.
// Throws ConfigError unless 0 <= i < parts and n >= 0.
Range split(std::int64_t n, std::int64_t parts, std::int64_t i);

// Part i of n elements cut only at multiples of `grain` (the last part takes the remainder).
Range split_aligned(std::int64_t n, std::int64_t parts, std::int64_t i, std::int64_t grain);

std::int64_t round_up(std::int64_t n, std::int64_t multiple);

}  // namespace shoal::shard
