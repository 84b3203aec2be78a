#include "shoal/data/pack.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "shoal/core/error.hpp"
#include "shoal/data/token_file.hpp"
#include "support/expect_message.hpp"
#include "support/temp_dir.hpp"

namespace shoal::data {
namespace {

using test::TempDir;

std::string text_of(const std::string& path) {
  const TokenFile f = TokenFile::packed(path);
  f.verify();
  std::vector<std::int32_t> ids(f.tokens());
  f.read(0, f.tokens(), ids.data());
  return {ids.begin(), ids.end()};
}

TEST(Pack, OneFileIsItsBytes) {
  const TempDir dir;
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  const PackReport report = pack(dir / "o.tok", {dir.write("a.bin", bytes)});
  EXPECT_EQ(text_of(dir / "o.tok"), bytes);
  EXPECT_EQ(report.files, 1);
  EXPECT_EQ(report.tokens, 256);
  EXPECT_EQ(report.dtype, DType::u16);
  EXPECT_EQ(report.checksum, TokenFile::packed(dir / "o.tok").checksum());
  EXPECT_EQ(TokenFile::packed(dir / "o.tok").vocab(), 256);
}

TEST(Pack, FoldersAreSortedFilteredAndSeparated) {
  const TempDir dir;
  dir.write("in/b.py", "b\n");
  dir.write("in/a.py", "a");
  dir.write("in/B.py", "upper");  // bytes, not a locale, decide: before a.py
  dir.write("in/sub/c.py", "c");
  dir.write("in/empty.py", "");
  dir.write("in/notes.txt", "no");
  dir.write("outside.py", "no");
  std::filesystem::create_symlink("a.py", dir / "in/link.py");
  std::filesystem::create_directory_symlink("..", dir / "in/up");
  PackOptions options;
  options.suffixes = {".py"};
  const PackReport report = pack(dir / "o.tok", {dir / "in"}, options);
  EXPECT_EQ(text_of(dir / "o.tok"), "upper\na\nb\nc");
  EXPECT_EQ(report.files, 5);
  EXPECT_EQ(report.skipped_links, 2);
}

TEST(Pack, GlobsAndTheOrderOfInputs) {
  const TempDir dir;
  dir.write("x2.txt", "two\n");
  dir.write("x1.txt", "one\n");
  dir.write("z.txt", "zed");
  dir.write("[odd].txt", "odd");  // a file that is there is no pattern
  pack(dir / "o.tok", {dir / "z.txt", dir / "x?.txt", dir / "[odd].txt"});
  EXPECT_EQ(text_of(dir / "o.tok"), "zed\none\ntwo\nodd");
}

TEST(Pack, LongDocumentsKeepTheirBytesAcrossBlocks) {
  const TempDir dir;
  std::string bytes(3'000'001, 'x');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 % 251);
  pack(dir / "o.tok", {dir.write("a", bytes), dir.write("b", "end")});
  EXPECT_EQ(text_of(dir / "o.tok"), bytes + "\nend");
}

TEST(Pack, OptionsOfWidthAndVocabulary) {
  const TempDir dir;
  const std::string a = dir.write("a", "abc");
  PackOptions options;
  options.dtype = DType::u32;
  EXPECT_EQ(pack(dir / "o.tok", {a}, options).dtype, DType::u32);
  EXPECT_EQ(text_of(dir / "o.tok"), "abc");
  options.dtype.reset();
  options.vocab = 'c';
  EXPECT_MESSAGE(pack(dir / "o.tok", {a}, options), DataError, "token id 99 at position 2 does not fit");
  EXPECT_MESSAGE(pack(dir / "o.tok", {a}, options), DataError, "packing " + a);
}

TEST(Pack, RefusalsNameTheInput) {
  const TempDir dir;
  const std::string a = dir.write("in/a.txt", "a"), out = dir / "o.tok";
  PackOptions python;
  python.suffixes = {".py", ".pyi"};
  EXPECT_MESSAGE(pack(out, {}), DataError, "o.tok: nothing to pack");
  EXPECT_MESSAGE(pack(out, {dir / "gone"}), DataError, "gone: no such file or folder");
  EXPECT_MESSAGE(pack(out, {dir / "*.none"}), DataError, "*.none: matches no file");
  EXPECT_MESSAGE(pack(out, {dir / "in"}, python), DataError, "in: the folder has no files named *.py, *.pyi");
  EXPECT_MESSAGE(pack(out, {dir / "in", a}), DataError,
                 "a.txt: reached twice, by the inputs " + (dir / "in"));
  EXPECT_MESSAGE(pack(out, {"/dev/null"}), DataError, "/dev/null: not a regular file");
  EXPECT_MESSAGE(pack(out, {"/proc/self/mem"}), DataError, "/proc/self/mem: cannot be read");
  EXPECT_MESSAGE(pack(out, {dir.write("e", "")}), DataError, "no tokens to write");
  EXPECT_MESSAGE(pack(dir / "no/o.tok", {a}), DataError, "no/o.tok: cannot be written");
  EXPECT_FALSE(std::filesystem::exists(out));
  EXPECT_EQ(dir.entries(), 2);  // in/ and e: nothing temporary is left
  pack(dir / "in/o.tok", {a});
  EXPECT_MESSAGE(pack(dir / "in/o.tok", {dir / "in"}), DataError, "both the output and an input");
  EXPECT_MESSAGE(pack(out, {dir / "in/o.tok"}), DataError, "in/o.tok: is a token file already");
}

}  // namespace
}  // namespace shoal::data
