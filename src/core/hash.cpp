#define XXH_INLINE_ALL
#include "shoal/core/hash.hpp"

#include <fmt/format.h>
#include <xxhash.h>

namespace shoal {

std::uint64_t hash_bytes(const void* data, std::size_t nbytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(data, nbytes, seed);
}

std::string hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

struct Hasher::State {
  XXH3_state_t xxh3;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->xxh3); }
Hasher::~Hasher() = default;
void Hasher::update(const void* data, std::size_t nbytes) { XXH3_64bits_update(&state_->xxh3, data, nbytes); }
std::uint64_t Hasher::value() const { return XXH3_64bits_digest(&state_->xxh3); }

}  // namespace shoal
