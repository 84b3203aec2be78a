// XXH3-64 of a range of bytes: checksums of files and hashes of tensors.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace shoal {

std::uint64_t hash_bytes(const void* data, std::size_t nbytes, std::uint64_t seed = 0);
std::string hex(std::uint64_t value);  // 16 digits

}  // namespace shoal
