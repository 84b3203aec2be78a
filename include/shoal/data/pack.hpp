// Packs files into one token file, bytes as tokens.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shoal/core/dtype.hpp"

namespace shoal::data {

struct PackOptions {
  // Which files a folder contributes: those whose names end in one of these (".py"); empty: all. Files and
  // globs that are named as inputs are taken whatever their suffix.
  std::vector<std::string> suffixes;
  std::int64_t vocab = 256;
  std::optional<DType> dtype;  // u16 or u32; by default by the vocabulary
};

struct PackReport {
  std::int64_t files = 0;
  std::int64_t skipped_links = 0;  // symbolic links met inside folders
  std::int64_t tokens = 0;
  DType dtype = DType::u16;
  std::uint64_t checksum = 0;  // of the data
};

// Inputs are files, folders (walked to the bottom) and globs (* ? [ ]), taken in the order given; what a
// folder or a glob holds is sorted by the bytes of its path, so that the result does not depend on locale or
// file system. Symbolic links inside folders are skipped and counted, so that nothing is packed twice through
// one. Between two documents stands a newline byte where the first does not end in one; a single document is
// packed as it is. The output appears whole or not at all.
//
// Throws DataError naming the path: unreadable, nothing found, a file reached twice, an input that is a token
// file already or is the output, a byte that is not below the vocabulary, no bytes at all.
PackReport pack(const std::string& output, const std::vector<std::string>& inputs,
                const PackOptions& options = {});

}  // namespace shoal::data
