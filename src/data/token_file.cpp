#include "shoal/data/token_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "data/token_header.hpp"
#include "shoal/core/error.hpp"

namespace shoal::data {
namespace {

std::string hex_bytes(const void* data, std::size_t n) {
  const auto* p = static_cast<const unsigned char*>(data);
  return fmt::format("{:02x}", fmt::join(p, p + n, " "));
}

// f(const T*) for the stored type T of the data.
template <class F>
auto with_type(DType dtype, const std::byte* data, F f) {
  if (dtype == DType::u16) return f(reinterpret_cast<const std::uint16_t*>(data));
  if (dtype == DType::u32) return f(reinterpret_cast<const std::uint32_t*>(data));
  return f(reinterpret_cast<const std::uint8_t*>(data));
}

// Offset of the field in the file, expected and found, in one message.
[[noreturn]] void damaged(const std::string& path, std::size_t offset, const std::string& field,
                          const std::string& expected, const std::string& found) {
  throw DataError(
      fmt::format("{}: at offset {}: {}: expected {}, found {}", path, offset, field, expected, found));
}

TokenHeader check_header(const MappedFile& file) {
  const std::string& path = file.path();
  const std::int64_t size = file.size();
  if (size == 0)
    throw DataError(fmt::format("{}: is empty: expected a token file of 64 bytes or more", path));
  const std::size_t seen = std::min<std::size_t>(size, sizeof(magic));
  if (std::memcmp(file.data(), magic, seen) != 0)
    damaged(path, 0, "magic", hex_bytes(magic, sizeof(magic)), hex_bytes(file.data(), seen));
  TokenHeader h;
  // Every version begins with magic and version, so that a newer file is named as such.
  if (size >= 12) {
    std::memcpy(&h, file.data(), 12);
    if (h.version > token_file_version)
      damaged(path, 8, "version", fmt::format("{} or lower", token_file_version),
              fmt::format("{} (written by a newer release, or damaged)", h.version));
  }
  if (size < static_cast<std::int64_t>(sizeof(h)))
    damaged(path, static_cast<std::size_t>(size), "cut short in the header", "64 bytes",
            fmt::format("{}", size));
  std::memcpy(&h, file.data(), sizeof(h));
  const std::uint64_t checksum = hash_bytes(&h, offsetof(TokenHeader, header_checksum));
  if (checksum != h.header_checksum)
    damaged(path, offsetof(TokenHeader, header_checksum), "checksum of the header (which is damaged)",
            hex(checksum), hex(h.header_checksum));
  // From here on a mismatch is the writer's fault, not damage; it is refused all the same.
  if (h.version != token_file_version)
    damaged(path, 8, "version", fmt::format("{}", token_file_version), fmt::format("{}", h.version));
  if (h.header_bytes != sizeof(h)) damaged(path, 12, "header size", "64", fmt::format("{}", h.header_bytes));
  if (h.token_bytes != 2 && h.token_bytes != 4)
    damaged(path, 16, "bytes a token", "2 or 4", fmt::format("{}", h.token_bytes));
  const std::int64_t limit = h.token_bytes == 2 ? 65536 : max_vocab;
  if (h.vocab < 1 || h.vocab > limit)
    damaged(path, 20, "vocabulary", fmt::format("1 to {} for tokens of {} bytes", limit, h.token_bytes),
            fmt::format("{}", h.vocab));
  if (h.tokens == 0) damaged(path, 24, "tokens", "1 or more", "0");
  if (h.max_id >= h.vocab)
    damaged(path, 32, "largest id", fmt::format("below the vocabulary of {}", h.vocab),
            fmt::format("{}", h.max_id));
  if (h.reserved0 != 0 || h.reserved1 != 0)
    damaged(path, h.reserved0 != 0 ? 36 : 48, "reserved bytes", "0", "others");
  // Compared in tokens: a count times its size could overflow.
  const std::uint64_t data_bytes = static_cast<std::uint64_t>(size) - sizeof(h);
  if (data_bytes % h.token_bytes != 0 || data_bytes / h.token_bytes != h.tokens) {
    const char* how = data_bytes / h.token_bytes < h.tokens ? "cut short" : "too long";
    damaged(path, sizeof(h), fmt::format("data {}", how),
            fmt::format("{} tokens of {} bytes", h.tokens, h.token_bytes),
            fmt::format("{} bytes", data_bytes));
  }
  return h;
}

}  // namespace

DType token_dtype(std::int64_t vocab) {
  if (vocab < 1 || vocab > max_vocab)
    throw ConfigError(fmt::format("a vocabulary of {}: expected 1 to {}", vocab, max_vocab));
  return vocab <= 65536 ? DType::u16 : DType::u32;
}

TokenFile TokenFile::packed(const std::string& path) {
  TokenFile t;
  t.file_ = std::make_shared<const MappedFile>(path, raise<DataError>);
  const TokenHeader h = check_header(*t.file_);
  t.data_ = t.file_->data() + sizeof(h);
  t.dtype_ = h.token_bytes == 2 ? DType::u16 : DType::u32;
  t.packed_ = true;
  t.vocab_ = h.vocab;
  t.tokens_ = static_cast<std::int64_t>(h.tokens);
  t.max_id_ = h.max_id;
  t.checksum_ = h.data_checksum;
  return t;
}

TokenFile TokenFile::text(const std::string& path) {
  TokenFile t;
  t.file_ = std::make_shared<const MappedFile>(path, raise<DataError>);
  if (t.file_->size() == 0)
    throw DataError(fmt::format("{}: is empty: expected 1 byte of text or more", path));
  t.data_ = t.file_->data();
  t.vocab_ = 256;
  t.tokens_ = t.file_->size();
  t.max_id_ = 255;
  return t;
}

void TokenFile::verify() const {
  if (!packed_) return;
  const std::uint64_t found = hash_bytes(data_, tokens_ * size_of(dtype_));
  if (found != checksum_)
    damaged(path(), sizeof(TokenHeader), "checksum of the data (which is damaged)", hex(checksum_),
            hex(found));
}

void TokenFile::read(std::int64_t first, std::int64_t count, std::int32_t* out) const {
  if (first < 0 || count < 0 || count > tokens_ || first > tokens_ - count)
    throw DataError(fmt::format("{}: {} tokens from position {}: it has {}", path(), count, first, tokens_));
  with_type(dtype_, data_, [&](const auto* p) { std::copy(p + first, p + first + count, out); });
}

std::optional<std::int64_t> TokenFile::find_id_not_below(std::int64_t vocab, std::int64_t first,
                                                         std::int64_t last) const {
  if (max_id_ < vocab) return std::nullopt;
  return with_type(dtype_, data_, [&](const auto* p) -> std::optional<std::int64_t> {
    for (std::int64_t i = first; i < last; ++i)
      if (static_cast<std::int64_t>(p[i]) >= vocab) return i;
    return std::nullopt;
  });
}

TokenFile open_tokens(const std::string& path) {
  if (path.ends_with(".tok")) return TokenFile::packed(path);
  const MappedFile file(path, raise<DataError>);
  const bool packed = file.size() >= 4 && std::memcmp(file.data(), magic, 4) == 0;
  if (packed) return TokenFile::packed(path);
  // Ids in a file of another program, a header that is damaged: bytes, but no text has a zero among them.
  const std::size_t seen = std::min<std::size_t>(file.size(), 1 << 16);
  if (const void* zero = seen > 0 ? std::memchr(file.data(), 0, seen) : nullptr)
    throw DataError(fmt::format(
        "{}: at offset {}: a zero byte: expected text, or a packed token file (which begins with "
        "{}); shoal data pack makes one of any bytes",
        path, static_cast<const std::byte*>(zero) - file.data(), hex_bytes(magic, sizeof(magic))));
  return TokenFile::text(path);
}

}  // namespace shoal::data
