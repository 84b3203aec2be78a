#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>

#include "shoal/core/error.hpp"
#include "shoal/core/hash.hpp"
#include "shoal/data/token_file.hpp"
#include "support/expect_message.hpp"
#include "support/temp_dir.hpp"

namespace shoal::data {
namespace {

using test::read_file;
using test::TempDir;
using Ids = std::vector<std::uint32_t>;

std::vector<std::int32_t> all(const TokenFile& f) {
  std::vector<std::int32_t> out(f.tokens());
  f.read(0, f.tokens(), out.data());
  return out;
}

// The bytes of a good file of five u16 tokens, for damage.
std::string good() {
  const TempDir dir;
  write_tokens(dir / "a.tok", Ids{1, 2, 3, 4, 299}, 300);
  return read_file(dir / "a.tok");
}

template <class T>
std::string patched(std::string file, std::size_t offset, T value, bool fix_checksum = true) {
  std::memcpy(file.data() + offset, &value, sizeof(value));
  const std::uint64_t checksum = hash_bytes(file.data(), 56);
  if (fix_checksum) std::memcpy(file.data() + 56, &checksum, 8);
  return file;
}

TEST(TokenFile, HeaderIsByteExact) {
  const std::string f = good();
  ASSERT_EQ(f.size(), 64u + 10u);
  EXPECT_EQ(f.substr(0, 8), std::string("\x89SHOAL\r\n"));
  const auto u32 = [&](std::size_t at) {
    std::uint32_t v;
    std::memcpy(&v, f.data() + at, 4);
    return v;
  };
  const auto u64 = [&](std::size_t at) {
    std::uint64_t v;
    std::memcpy(&v, f.data() + at, 8);
    return v;
  };
  EXPECT_EQ(u32(8), 1u);
  EXPECT_EQ(u32(12), 64u);
  EXPECT_EQ(u32(16), 2u);
  EXPECT_EQ(u32(20), 300u);
  EXPECT_EQ(u64(24), 5u);
  EXPECT_EQ(u32(32), 299u);
  EXPECT_EQ(u32(36), 0u);
  EXPECT_EQ(u64(40), hash_bytes(f.data() + 64, 10));
  EXPECT_EQ(u64(48), 0u);
  EXPECT_EQ(u64(56), hash_bytes(f.data(), 56));
  EXPECT_EQ(f.substr(64), std::string("\x01\0\x02\0\x03\0\x04\0\x2b\x01", 10));
}

TEST(TokenFile, IdsComeBackExactlyOrAreRefused) {
  const TempDir dir;
  const std::string path = dir / "x.tok";
  write_tokens(path, Ids{0, 65535}, 65536);
  EXPECT_EQ(TokenFile::packed(path).dtype(), DType::u16);
  EXPECT_EQ(all(TokenFile::packed(path)), (std::vector<std::int32_t>{0, 65535}));

  const std::string before = read_file(path);
  EXPECT_MESSAGE(write_tokens(path, Ids{0, 65536}, 65536), DataError,
                 "token id 65536 at position 1 does not fit: expected ids below the vocabulary of 65536");
  EXPECT_MESSAGE(write_tokens(path, Ids{119546}, 65536), DataError, "token id 119546 at position 0");
  EXPECT_EQ(read_file(path), before);  // a refused write leaves the old file and no other
  EXPECT_EQ(dir.entries(), 1);

  write_tokens(path, Ids{0, 65535, 65536, 119546}, 119547);
  const TokenFile wide = TokenFile::packed(path);
  EXPECT_EQ(wide.dtype(), DType::u32);
  EXPECT_EQ(wide.vocab(), 119547);
  EXPECT_EQ(all(wide), (std::vector<std::int32_t>{0, 65535, 65536, 119546}));
  wide.verify();

  EXPECT_MESSAGE(write_tokens(path, Ids{119547}, 119547), DataError, "token id 119547 at position 0");
  EXPECT_MESSAGE(TokenWriter(path, 65537, DType::u16), ConfigError, "a vocabulary of 65537 does not fit u16");
  EXPECT_MESSAGE(TokenWriter(path, 10, DType::f32), ConfigError, "dtype f32");
  EXPECT_MESSAGE(write_tokens(path, Ids{0}, 0), ConfigError, "a vocabulary of 0");
  EXPECT_MESSAGE(write_tokens(path, Ids{0}, max_vocab + 1), ConfigError, "expected 1 to 2147483648");
  EXPECT_MESSAGE(write_tokens(path, Ids{}, 10), DataError, "no tokens to write");
}

TEST(TokenFile, PositionInTheMessageCountsAllParts) {
  const TempDir dir;
  TokenWriter writer(dir / "x.tok", 10);
  writer.append(Ids{1, 2, 3});
  EXPECT_MESSAGE(writer.append(Ids{4, 10}), DataError, "token id 10 at position 4");
}

TEST(TokenFile, PartsHashLikeTheWhole) {
  const TempDir dir;
  TokenWriter writer(dir / "x.tok", 1 << 20);
  Ids ids(700001);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::uint32_t>(i * 7919 % (1 << 20));
  writer.append(std::span(ids).first(600000));
  writer.append(std::span(ids).subspan(600000));
  EXPECT_FALSE(std::filesystem::exists(dir / "x.tok"));
  writer.finish();
  const TokenFile f = TokenFile::packed(dir / "x.tok");
  f.verify();
  EXPECT_EQ(f.checksum(), hash_bytes(ids.data(), ids.size() * 4));
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), all(f).begin()));
}

TEST(TokenFile, ReadOutsideIsRefused) {
  const TempDir dir;
  const TokenFile f = TokenFile::packed(dir.write("a.tok", good()));
  std::int32_t out[8];
  f.read(4, 1, out);
  EXPECT_EQ(out[0], 299);
  f.read(5, 0, out);
  EXPECT_MESSAGE(f.read(4, 2, out), DataError, "2 tokens from position 4: it has 5");
  EXPECT_MESSAGE(f.read(-1, 2, out), DataError, "from position -1");
  EXPECT_MESSAGE(f.read(std::int64_t{1} << 62, std::int64_t{1} << 62, out), DataError, "it has 5");
}

TEST(TokenFile, DamageIsNamed) {
  const TempDir dir;
  const std::string f = good(), path = dir / "a.tok";
  const auto open = [&](const std::string& bytes) { return TokenFile::packed(dir.write("a.tok", bytes)); };
  EXPECT_MESSAGE(open(""), DataError, path + ": is empty");
  EXPECT_MESSAGE(open(f.substr(0, 5)), DataError,
                 path + ": at offset 5: cut short in the header: expected 64 bytes, found 5");
  EXPECT_MESSAGE(open(f.substr(0, 63)), DataError, "found 63");
  EXPECT_MESSAGE(open("plain text, not tokens"), DataError,
                 "at offset 0: magic: expected 89 53 48 4f 41 4c 0d 0a, found 70 6c 61 69 6e 20 74 65");
  EXPECT_MESSAGE(open(f.substr(0, 73)), DataError,
                 "at offset 64: data cut short: expected 5 tokens of 2 bytes, found 9 bytes");
  EXPECT_MESSAGE(open(f.substr(0, 64)), DataError, "found 0 bytes");
  EXPECT_MESSAGE(open(f + "z"), DataError, "data too long: expected 5 tokens of 2 bytes, found 11 bytes");
  EXPECT_MESSAGE(open(f + "zz"), DataError, "data too long: expected 5 tokens of 2 bytes, found 12 bytes");
  EXPECT_MESSAGE(open(patched(f, 8, 2u)), DataError, "at offset 8: version: expected 1 or lower, found 2");
  EXPECT_MESSAGE(open(patched(f, 8, 0u)), DataError, "version: expected 1, found 0");
  EXPECT_MESSAGE(open(patched(f, 24, std::uint64_t{6}, false)), DataError,
                 "at offset 56: checksum of the header");
  EXPECT_MESSAGE(open(patched(f, 12, 65u)), DataError, "header size: expected 64, found 65");
  EXPECT_MESSAGE(open(patched(f, 16, 3u)), DataError, "bytes a token: expected 2 or 4, found 3");
  EXPECT_MESSAGE(open(patched(f, 16, 0u)), DataError, "bytes a token: expected 2 or 4, found 0");
  EXPECT_MESSAGE(open(patched(f, 20, 65537u)), DataError,
                 "vocabulary: expected 1 to 65536 for tokens of 2 bytes");
  EXPECT_MESSAGE(open(patched(f, 20, 0u)), DataError, "found 0");
  EXPECT_MESSAGE(open(patched(f, 24, std::uint64_t{0})), DataError, "tokens: expected 1 or more, found 0");
  // 2^63 + 5 tokens of 2 bytes: the product is 10 in 64 bits, and must not pass for it.
  EXPECT_MESSAGE(open(patched(f, 24, (std::uint64_t{1} << 63) + 5)), DataError,
                 "expected 9223372036854775813 tokens");
  EXPECT_MESSAGE(open(patched(f, 32, 300u)), DataError,
                 "largest id: expected below the vocabulary of 300, found 300");
  EXPECT_MESSAGE(open(patched(f, 36, 1u)), DataError, "at offset 36: reserved");
  EXPECT_MESSAGE(open(patched(f, 48, 1u)), DataError, "at offset 48: reserved");
  std::string flipped = f;
  flipped[70] ^= 1;
  const TokenFile damaged = open(flipped);
  EXPECT_MESSAGE(damaged.verify(), DataError, "at offset 64: checksum of the data");
  EXPECT_MESSAGE(TokenFile::packed(dir / "none.tok"), DataError, "none.tok: cannot be opened: No such file");
  EXPECT_MESSAGE(TokenFile::packed(dir.path().string()), DataError,
                 "is a directory, expected a regular file");
}

TEST(TokenFile, AnyChangedHeaderByteIsRefused) {
  const TempDir dir;
  const std::string f = good();
  for (std::size_t at = 0; at < 64; ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = f;
      bad[at] = static_cast<char>(bad[at] ^ 1 << bit);
      EXPECT_THROW(TokenFile::packed(dir.write("a.tok", bad)), DataError) << "byte " << at << ", bit " << bit;
    }
}

TEST(TokenFile, RandomHeadersAreRefusedOrHarmless) {
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 rng(seed);
  const TempDir dir;
  const std::string f = good();
  int opened = 0;
  for (int round = 0; round < 400; ++round) {
    std::string bad = f.substr(0, 1 + rng() % 74);
    const unsigned changes = rng() % 8;
    for (unsigned i = 0; i < changes; ++i) bad[rng() % bad.size()] = static_cast<char>(rng());
    if (bad.size() >= 64 && rng() % 2)
      bad = patched(bad, 8 + rng() % 45, static_cast<std::uint32_t>(rng()));  // a good checksum
    try {
      const TokenFile t = TokenFile::packed(dir.write("a.tok", bad));
      ++opened;
      EXPECT_LE(t.tokens() * size_of(t.dtype()), 10);
      EXPECT_EQ(all(t).size(), static_cast<std::size_t>(t.tokens()));
    } catch (const DataError&) {
    }
  }
  EXPECT_LT(opened, 400);
}

TEST(OpenTokens, TextIsBytesAndDamagedFilesAreNotText) {
  const TempDir dir;
  const TokenFile text = open_tokens(dir.write("a.txt", "a\xff\n"));
  EXPECT_FALSE(text.is_packed());
  EXPECT_EQ(text.vocab(), 256);
  EXPECT_EQ(all(text), (std::vector<std::int32_t>{'a', 255, '\n'}));
  text.verify();
  EXPECT_MESSAGE(open_tokens(dir.write("empty.txt", "")), DataError, "empty.txt: is empty");
  EXPECT_MESSAGE(open_tokens(dir / "none.txt"), DataError, "none.txt: cannot be opened");

  EXPECT_TRUE(open_tokens(dir.write("packed", good())).is_packed());  // whatever its name
  std::string damaged = good();
  damaged[6] = '\n';  // as a conversion of line ends would
  EXPECT_MESSAGE(open_tokens(dir.write("packed", damaged)), DataError, "magic");
  damaged[1] = 's';
  EXPECT_MESSAGE(open_tokens(dir.write("a.tok", damaged)), DataError, "magic");
  EXPECT_MESSAGE(open_tokens(dir.write("b.tok", "some text")), DataError, "magic");
  // A zero byte is no text: a header without its beginning, or ids of two bytes in another program's file.
  EXPECT_MESSAGE(open_tokens(dir.write("b.text", damaged)), DataError,
                 "b.text: at offset 9: a zero byte: expected text, or a packed token file");
  EXPECT_MESSAGE(open_tokens(dir.write("ids.bin", std::string("a\0b\0", 4))), DataError, "at offset 1");
}

TEST(OpenTokens, FindsTheFirstIdThatIsTooLarge) {
  const TempDir dir;
  const TokenFile f = TokenFile::packed(dir.write("a.tok", good()));
  EXPECT_EQ(f.find_id_not_below(300, 0, 5), std::nullopt);
  EXPECT_EQ(f.find_id_not_below(299, 0, 5), 4);
  EXPECT_EQ(f.find_id_not_below(3, 0, 5), 2);
  EXPECT_EQ(f.find_id_not_below(3, 0, 2), std::nullopt);
}

TEST(TokenWriter, AnUnwritablePlaceIsNamed) {
  const TempDir dir;
  EXPECT_MESSAGE(TokenWriter(dir / "no/such/x.tok", 10), DataError,
                 "no/such/x.tok: cannot be written: No such file");
  EXPECT_MESSAGE(TokenWriter(dir.path().string(), 10), DataError, "cannot be written: Is a directory");
}

}  // namespace
}  // namespace shoal::data
