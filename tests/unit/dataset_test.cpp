#include "shoal/data/dataset.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "shoal/core/error.hpp"
#include "shoal/data/sampler.hpp"
#include "support/expect_message.hpp"
#include "support/temp_dir.hpp"

namespace shoal::data {
namespace {

using test::TempDir;
using Ids = std::vector<std::int32_t>;

TokenFile counted(const TempDir& dir, std::uint32_t n, std::int64_t vocab = 70000) {
  std::vector<std::uint32_t> ids(n);
  for (std::uint32_t i = 0; i < n; ++i) ids[i] = i;
  write_tokens(dir / "n.tok", ids, vocab);
  return open_tokens(dir / "n.tok");
}

TEST(Dataset, SamplesAreWindowsAndTheNextToken) {
  const TempDir dir;
  const TokenFile f = counted(dir, 20);
  const Dataset d(f, {3, 14}, 3, 70000);  // 11 tokens: three windows of 3, and the last target
  EXPECT_EQ(d.samples(), 3);
  Ids x(3), y(3);
  d.read(0, x.data(), y.data());
  EXPECT_EQ(x, (Ids{3, 4, 5}));
  EXPECT_EQ(y, (Ids{4, 5, 6}));
  d.read(2, x.data(), y.data());
  EXPECT_EQ(x, (Ids{9, 10, 11}));
  EXPECT_EQ(y, (Ids{10, 11, 12}));
  EXPECT_EQ(Dataset(f, {3, 13}, 3, 70000).samples(), 3);  // exactly enough
  EXPECT_EQ(Dataset(f, {3, 12}, 3, 70000).samples(), 2);
  EXPECT_EQ(Dataset(f, 19, 70000).samples(), 1);
  EXPECT_MESSAGE(d.read(3, x.data(), y.data()), DataError, "sample 3 of 3");
  EXPECT_MESSAGE(d.read(-1, x.data(), y.data()), DataError, "sample -1 of 3");
}

TEST(Dataset, TooFewTokensNameTheCounts) {
  const TempDir dir;
  const TokenFile f = open_tokens(dir.write("short.txt", "abcd"));
  EXPECT_MESSAGE(Dataset(f, 4, 256), DataError,
                 "short.txt: 4 tokens (positions [0, 4) of 4) are fewer than one sample: a sequence of 4 "
                 "needs 5 tokens");
  EXPECT_MESSAGE(Dataset(f, {2, 2}, 1, 256), DataError, "0 tokens (positions [2, 2) of 4)");
  EXPECT_MESSAGE(Dataset(f, {2, 5}, 1, 256), DataError, "tokens [2, 5): it has 4");
  EXPECT_MESSAGE(Dataset(f, 0, 256), ConfigError, "sequences of 0 tokens");
  EXPECT_EQ(Dataset(f, 3, 256).samples(), 1);
}

TEST(Dataset, AnIdBeyondTheModelsVocabularyIsNamed) {
  const TempDir dir;
  const TokenFile f = counted(dir, 50);
  EXPECT_MESSAGE(Dataset(f, 4, 40), DataError,
                 "n.tok: token id 40 at position 40: the model's vocabulary of 40 has ids 0 to 39");
  EXPECT_EQ(Dataset(f, 4, 50).vocab(), 50);
  EXPECT_EQ(Dataset(f, {0, 40}, 4, 40).samples(), 9);  // only the part counts
  const TokenFile text = open_tokens(dir.write("t.txt", "aaaaz"));
  EXPECT_MESSAGE(Dataset(text, 2, 122), DataError, "t.txt: token id 122 at position 4");
}

TEST(Dataset, AnIdDamagedSinceTheFileWasWrittenIsFoundWhenRead) {
  const TempDir dir;
  counted(dir, 50, 50);
  {
    std::fstream f(dir / "n.tok", std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(64 + 2 * 9);
    f.write("\xff\xff", 2);
  }
  const Dataset d(open_tokens(dir / "n.tok"), 4, 50);
  Ids x(4), y(4);
  d.read(0, x.data(), y.data());
  EXPECT_MESSAGE(d.read(2, x.data(), y.data()), DataError, "token id 65535 at position 9");
}

TEST(Dataset, SplitIsNanoGpts) {
  const auto [train, val] = split_tokens(1115394, 0.9);  // tiny Shakespeare
  EXPECT_EQ(train, (shard::Range{0, 1003854}));
  EXPECT_EQ(val, (shard::Range{1003854, 1115394}));
  EXPECT_EQ(split_tokens(10, 1.0).second.size(), 0);
  for (double bad : {0.0, -1.0, 1.5, std::nan("")})
    EXPECT_MESSAGE(split_tokens(10, bad), ConfigError, "data.split = ");
}

TEST(Dataset, OpenSplitTakesAFileOrTheRest) {
  const TempDir dir;
  counted(dir, 100);
  const std::string train = dir / "n.tok", val = dir.write("v.txt", "abcdefgh");
  const DataSplit rest = open_split(train, "", 0.9, 4, 70000);
  EXPECT_EQ(rest.train.part(), (shard::Range{0, 90}));
  EXPECT_EQ(rest.val->part(), (shard::Range{90, 100}));
  const DataSplit own = open_split(train, val, 0.9, 4, 70000);
  EXPECT_EQ(own.train.tokens(), 100);
  EXPECT_EQ(own.val->tokens(), 8);
  EXPECT_MESSAGE(open_split(train, "", 0.9, 10, 70000), DataError, "10 tokens (positions [90, 100) of 100)");
  EXPECT_FALSE(open_split(train, "", 0.9, 10, 70000, false).val.has_value());
}

TEST(Dataset, FillsTensorsInOrder) {
  const TempDir dir;
  const Dataset d(counted(dir, 20), 3, 70000);
  Ids x(6), y(6);
  const Tensor tx = Tensor::from_blob(x.data(), {2, 3}, DType::i32, {}),
               ty = Tensor::from_blob(y.data(), {6}, DType::i32, {});
  fill_samples(d, 1, 2, tx, ty);
  EXPECT_EQ(x, (Ids{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(y, (Ids{4, 5, 6, 7, 8, 9}));
  EXPECT_MESSAGE(fill_samples(d, 0, 1, tx, ty), ShapeError,
                 "tokens of 1 samples: expected i32[1, 3] or i32[3] on cpu, got i32[2, 3] on cpu");
  EXPECT_MESSAGE(fill_samples(d, 5, 2, tx, ty), DataError, "sample 6 of 6");

  const Sampler s(d.samples(), 4, 7);
  fill_batch(d, s, 2, 1, 2, tx, ty);
  for (int i = 0; i < 2; ++i)
    for (int t = 0; t < 3; ++t) {
      EXPECT_EQ(x[i * 3 + t], s.sample(2, 1 + i) * 3 + t);
      EXPECT_EQ(y[i * 3 + t], x[i * 3 + t] + 1);
    }
  EXPECT_MESSAGE(fill_batch(d, Sampler(5, 4, 7), 0, 0, 2, tx, ty), ConfigError,
                 "5 samples for a dataset of 6");
}

}  // namespace
}  // namespace shoal::data
