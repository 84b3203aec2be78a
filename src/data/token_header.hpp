// The header of a token file, byte for byte (docs/token_file.md).
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

namespace shoal::data {

static_assert(std::endian::native == std::endian::little, "token files are little endian, and read in place");

// Like PNG's: not text in any encoding, and damaged by every conversion of line ends.
inline constexpr unsigned char magic[8] = {0x89, 'S', 'H', 'O', 'A', 'L', '\r', '\n'};
inline constexpr std::uint32_t token_file_version = 1;

struct TokenHeader {
  unsigned char magic[8];
  std::uint32_t version;
  std::uint32_t header_bytes;  // 64
  std::uint32_t token_bytes;   // 2 or 4
  std::uint32_t vocab;         // 1 .. 2^31
  std::uint64_t tokens;
  std::uint32_t max_id;           // the largest id in the data
  std::uint32_t reserved0;        // 0
  std::uint64_t data_checksum;    // XXH3-64 of the data
  std::uint64_t reserved1;        // 0
  std::uint64_t header_checksum;  // XXH3-64 of the 56 bytes before it
};
static_assert(sizeof(TokenHeader) == 64 && offsetof(TokenHeader, header_checksum) == 56);

}  // namespace shoal::data
