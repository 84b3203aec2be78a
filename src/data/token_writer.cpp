#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "data/token_header.hpp"
#include "shoal/core/error.hpp"
#include "shoal/data/token_file.hpp"

namespace shoal::data {

TokenWriter::TokenWriter(const std::string& path, std::int64_t vocab, std::optional<DType> dtype)
    : path_(path), file_(path, raise<DataError>), dtype_(token_dtype(vocab)), vocab_(vocab) {
  if (dtype) {
    if (*dtype != DType::u16 && *dtype != DType::u32)
      throw ConfigError(fmt::format("{}: tokens of dtype {}: expected u16 or u32", path, name(*dtype)));
    if (*dtype == DType::u16 && dtype_ == DType::u32)
      throw ConfigError(
          fmt::format("{}: a vocabulary of {} does not fit u16: its ids are below 65536", path, vocab));
    dtype_ = *dtype;
  }
  const TokenHeader blank{};
  file_.append(&blank, sizeof(blank));
}

template <class Id>
void TokenWriter::append_ids(std::span<const Id> ids) {
  // All are checked before any is written.
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (static_cast<std::int64_t>(ids[i]) >= vocab_)
      throw DataError(
          fmt::format("{}: token id {} at position {} does not fit: expected ids below the vocabulary of {}",
                      path_, ids[i], tokens_ + static_cast<std::int64_t>(i), vocab_));
    max_id_ = std::max(max_id_, static_cast<std::uint32_t>(ids[i]));
  }
  const auto write = [&]<class Stored>(Stored) {
    std::vector<Stored> block(std::min<std::size_t>(ids.size(), 1 << 18));
    for (std::size_t at = 0; at < ids.size(); at += block.size()) {
      const std::size_t n = std::min(block.size(), ids.size() - at);
      std::transform(ids.begin() + at, ids.begin() + at + n, block.begin(),
                     [](Id id) { return static_cast<Stored>(id); });
      hasher_.update(block.data(), n * sizeof(Stored));
      file_.append(block.data(), n * sizeof(Stored));
    }
  };
  dtype_ == DType::u16 ? write(std::uint16_t{}) : write(std::uint32_t{});
  tokens_ += static_cast<std::int64_t>(ids.size());
}

void TokenWriter::append(std::span<const std::uint32_t> ids) { append_ids(ids); }
void TokenWriter::append(std::span<const std::uint8_t> ids) { append_ids(ids); }

void TokenWriter::finish() {
  if (tokens_ == 0) throw DataError(fmt::format("{}: no tokens to write: expected 1 or more", path_));
  TokenHeader h{};
  std::memcpy(h.magic, magic, sizeof(magic));
  h.version = token_file_version;
  h.header_bytes = sizeof(h);
  h.token_bytes = static_cast<std::uint32_t>(size_of(dtype_));
  h.vocab = static_cast<std::uint32_t>(vocab_);
  h.tokens = static_cast<std::uint64_t>(tokens_);
  h.max_id = max_id_;
  h.data_checksum = hasher_.value();
  h.header_checksum = hash_bytes(&h, offsetof(TokenHeader, header_checksum));
  file_.write_at(0, &h, sizeof(h));
  file_.commit();
}

void write_tokens(const std::string& path, std::span<const std::uint32_t> ids, std::int64_t vocab) {
  TokenWriter writer(path, vocab);
  writer.append(ids);
  writer.finish();
}

}  // namespace shoal::data
