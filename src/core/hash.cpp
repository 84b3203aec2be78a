#define XXH_INLINE_ALL
#include "shoal/core/hash.hpp"

#include <fmt/format.h>
#include <xxhash.h>

namespace shoal {

std::uint64_t hash_bytes(const void* data, std::size_t nbytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(data, nbytes, seed);
}

std::string hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace shoal
