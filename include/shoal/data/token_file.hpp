// Token files (docs/token_file.md): reading, and writing of given ids. Conventional suffix: .tok.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "shoal/core/dtype.hpp"
#include "shoal/core/file.hpp"
#include "shoal/core/hash.hpp"

namespace shoal::data {

// Ids are given to models as i32, so a vocabulary has at most 2^31 of them.
inline constexpr std::int64_t max_vocab = std::int64_t{1} << 31;

// u16 where every id of the vocabulary fits (vocab <= 65536), else u32. Throws ConfigError unless
// 1 <= vocab <= max_vocab.
DType token_dtype(std::int64_t vocab);

// A memory-mapped sequence of tokens: a packed file, or the bytes of any other file (plain text), each byte
// a token. Copies share the mapping. Thread-safe.
class TokenFile {
 public:
  // A packed file. Magic, version, header checksum, fields and size are checked here, before anything is
  // allocated; the data's checksum by verify(). Throws DataError naming file, offset, expected and found.
  static TokenFile packed(const std::string& path);
  // The bytes of a file, vocab 256. Throws DataError for an empty one.
  static TokenFile text(const std::string& path);

  const std::string& path() const { return file_->path(); }
  bool is_packed() const { return packed_; }
  DType dtype() const { return dtype_; }                // u8 (text), u16 or u32
  std::int64_t vocab() const { return vocab_; }         // ids are below it
  std::int64_t tokens() const { return tokens_; }       // 1 or more
  std::int64_t bytes() const { return file_->size(); }  // of the file
  std::uint64_t checksum() const { return checksum_; }  // XXH3-64 of the data, as stored; 0 for text

  // Reads all data and compares the checksum. Throws DataError naming both. Nothing to do for text.
  void verify() const;
  // out[i] = token first + i. Throws DataError when [first, first + count) is not in the file.
  void read(std::int64_t first, std::int64_t count, std::int32_t* out) const;
  // The first position in [first, last) that holds an id of `vocab` or more. Reads data only where the
  // header does not rule it out.
  std::optional<std::int64_t> find_id_not_below(std::int64_t vocab, std::int64_t first,
                                                std::int64_t last) const;

 private:
  TokenFile() = default;
  std::shared_ptr<const MappedFile> file_;
  const std::byte* data_ = nullptr;
  DType dtype_ = DType::u8;
  bool packed_ = false;
  std::int64_t vocab_ = 0, tokens_ = 0, max_id_ = 0;
  std::uint64_t checksum_ = 0;
};

// Opens either kind. A file is taken as packed when it begins with the first four bytes of the magic or is
// named *.tok (so a damaged packed file is an error, never text); anything else is text, which
// has no zero byte (in its first 65536).
TokenFile open_tokens(const std::string& path);

// Writes a token file, in parts; nothing is at `path` before finish(), and a whole file after it.
class TokenWriter {
 public:
  // dtype: u16 or u32; by default token_dtype(vocab). Throws ConfigError for a vocabulary whose ids do not
  // fit.
  TokenWriter(const std::string& path, std::int64_t vocab, std::optional<DType> dtype = std::nullopt);
  // Throws DataError naming the first id that is not below vocab, and its position.
  void append(std::span<const std::uint32_t> ids);
  void append(std::span<const std::uint8_t> ids);
  void finish();  // throws DataError when no token was written
  std::int64_t tokens() const { return tokens_; }
  DType dtype() const { return dtype_; }
  std::uint64_t checksum() const { return hasher_.value(); }

 private:
  template <class Id>
  void append_ids(std::span<const Id> ids);
  std::string path_;
  AtomicFile file_;
  DType dtype_;
  std::int64_t vocab_, tokens_ = 0;
  std::uint32_t max_id_ = 0;
  Hasher hasher_;
};

// All at once.
void write_tokens(const std::string& path, std::span<const std::uint32_t> ids, std::int64_t vocab);

}  // namespace shoal::data
