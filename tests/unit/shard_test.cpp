#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "shoal/core/error.hpp"
#include "shoal/shard/layout.hpp"
#include "shoal/shard/placement.hpp"
#include "shoal/shard/split.hpp"
#include "support/expect_message.hpp"

namespace shoal::shard {
namespace {

TEST(Split, PartsCoverAndDifferByAtMostOne) {
  EXPECT_EQ(split(10, 4, 0), (Range{0, 3}));
  EXPECT_EQ(split(10, 4, 1), (Range{3, 6}));
  EXPECT_EQ(split(10, 4, 2), (Range{6, 8}));
  EXPECT_EQ(split(10, 4, 3), (Range{8, 10}));
  for (std::int64_t n : {0, 1, 2, 31, 257})
    for (std::int64_t parts : {1, 2, 3, 7, 300}) {
      std::int64_t at = 0;
      for (std::int64_t i = 0; i < parts; ++i) {
        const Range r = split(n, parts, i);
        EXPECT_EQ(r.first, at);
        EXPECT_EQ(r.size(), n / parts + (i < n % parts));
        at = r.last;
      }
      EXPECT_EQ(at, n);
    }
}

TEST(Split, RefusesImpossibleParts) {
  EXPECT_MESSAGE(split(10, 4, 4), ConfigError, "part 4 of 10 elements in 4 parts");
  EXPECT_MESSAGE(split(-1, 4, 0), ConfigError, "part 0 of -1 elements");
  EXPECT_MESSAGE(split(1, 0, 0), ConfigError, "in 0 parts");
  EXPECT_MESSAGE(split_aligned(1, 1, 0, 0), ConfigError, "grains of 0");
  EXPECT_MESSAGE(round_up(1, 0), ConfigError, "multiple of 0");
}

TEST(Split, AlignedCutsAtTheGrainAndTheLastTakesTheRest) {
  EXPECT_EQ(split_aligned(1000, 3, 0, 256), (Range{0, 256}));
  EXPECT_EQ(split_aligned(1000, 3, 1, 256), (Range{256, 512}));
  EXPECT_EQ(split_aligned(1000, 3, 2, 256), (Range{512, 1000}));
  EXPECT_EQ(split_aligned(100, 2, 0, 256), (Range{0, 0}));
  EXPECT_EQ(split_aligned(100, 2, 1, 256), (Range{0, 100}));
  EXPECT_EQ(round_up(0, 256), 0);
  EXPECT_EQ(round_up(1, 256), 256);
  EXPECT_EQ(round_up(512, 256), 512);
}

std::vector<float> iota(std::int64_t n, float from = 0) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), from);
  return v;
}

TEST(Placement, WholeIsTheLogicalTensor) {
  const Placement p = Placement::whole("w", {3, 2});
  ASSERT_EQ(p.pieces.size(), 1u);
  EXPECT_EQ(p.piece_numel, 6);
  std::vector<float> out(6);
  gather_logical(p, 0, iota(6).data(), out.data());
  EXPECT_EQ(out, iota(6));
  EXPECT_EQ(Placement::whole("b", {5}).pieces[0][0].box, (Box{0, 5, 0, 1}));
}

TEST(Placement, ColumnsAreDensePieces) {
  const Placement p = Placement::columns("w", {2, 4}, 2);
  std::vector<float> stored(8, -1), logical(8, -1);
  scatter_logical(p, 0, iota(8).data(), stored.data());
  EXPECT_EQ(stored, (std::vector<float>{0, 1, 4, 5, 2, 3, 6, 7}));
  gather_logical(p, 0, stored.data(), logical.data());
  EXPECT_EQ(logical, iota(8));
}

TEST(Placement, PaddedRowsLeaveThePaddingAlone) {
  const Placement p = Placement::rows("embedding", {5, 2}, 4, 8);  // the last piece is padding alone
  ASSERT_EQ(p.pieces.size(), 4u);
  EXPECT_EQ(p.piece_numel, 4);
  EXPECT_EQ(p.pieces[2].size(), 1u);
  EXPECT_EQ(p.pieces[2][0].box, (Box{4, 1, 0, 2}));
  EXPECT_TRUE(p.pieces[3].empty());
  std::vector<float> stored(16, 0), logical(10, -1);
  scatter_logical(p, 0, iota(10, 1).data(), stored.data());
  EXPECT_EQ(stored, (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0, 0, 0, 0, 0}));
  gather_logical(p, 0, stored.data(), logical.data());
  EXPECT_EQ(logical, iota(10, 1));
}

TEST(Placement, FusedRowsLieTogetherInsideAPiece) {
  // Grouped-query attention: four query rows, two of keys, two of values, in two pieces.
  const Placement p = Placement::fused_rows({{"q", {4, 2}}, {"k", {2, 2}}, {"v", {2, 2}}}, 2);
  EXPECT_EQ(p.piece_numel, 8);
  std::vector<float> stored(16, -1);
  scatter_logical(p, 0, iota(8, 100).data(), stored.data());
  scatter_logical(p, 1, iota(4, 200).data(), stored.data());
  scatter_logical(p, 2, iota(4, 300).data(), stored.data());
  EXPECT_EQ(stored, (std::vector<float>{100, 101, 102, 103, 200, 201, 300, 301,  //
                                        104, 105, 106, 107, 202, 203, 302, 303}));
  std::vector<float> q(8), v(4);
  gather_logical(p, 0, stored.data(), q.data());
  gather_logical(p, 2, stored.data(), v.data());
  EXPECT_EQ(q, iota(8, 100));
  EXPECT_EQ(v, iota(4, 300));
}

TEST(Placement, FusedBiasesAreVectors) {
  const Placement p = Placement::fused_rows({{"q", {4}}, {"k", {2}}}, 2);
  std::vector<float> stored(6, -1);
  scatter_logical(p, 0, iota(4).data(), stored.data());
  scatter_logical(p, 1, iota(2, 10).data(), stored.data());
  EXPECT_EQ(stored, (std::vector<float>{0, 1, 10, 2, 3, 11}));
}

TEST(Placement, RefusesWhatDoesNotDivide) {
  EXPECT_MESSAGE(Placement::rows("w", {5, 2}, 2), ConfigError,
                 "5 rows of w [5, 2] do not divide into 2 pieces");
  EXPECT_MESSAGE(Placement::rows("w", {5, 2}, 2, 7), ConfigError, "7 padded rows");
  EXPECT_MESSAGE(Placement::rows("w", {5, 2}, 2, 4), ConfigError, "w [5, 2] padded to 4 rows");
  EXPECT_MESSAGE(Placement::columns("w", {2, 5}, 2), ConfigError, "5 columns of w [2, 5]");
  EXPECT_MESSAGE(Placement::columns("b", {4}, 2), ConfigError, "needs rank 2");
  EXPECT_MESSAGE(Placement::rows("w", {4, 2}, 0), ConfigError, "w in 0 pieces");
  EXPECT_MESSAGE(Placement::whole("w", {1, 2, 3}), ConfigError, "w has shape [1, 2, 3]");
  EXPECT_MESSAGE(Placement::fused_rows({{"q", {4, 2}}, {"k", {2, 3}}}, 2), ConfigError,
                 "k [2, 3] cannot be fused with q [4, 2]");
  EXPECT_MESSAGE(gather_logical(Placement::whole("w", {1}), 1, static_cast<float*>(nullptr),
                                static_cast<float*>(nullptr)),
                 ConfigError, "logical tensor 1 of a placement that has 1");
}

TEST(FlatLayout, SegmentsStartAtMultiplesOf256) {
  const FlatLayout layout = FlatLayout::make({{2, 300}, {1, 256}, {1, 0}, {1, 1}});
  ASSERT_EQ(layout.segments.size(), 5u);
  const std::int64_t offsets[] = {0, 512, 1024, 1280, 1280}, numels[] = {300, 300, 256, 0, 1};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(layout.segments[i].offset, offsets[i]);
    EXPECT_EQ(layout.segments[i].numel, numels[i]);
  }
  EXPECT_EQ(layout.segments[1].tensor, 0);
  EXPECT_EQ(layout.segments[1].piece, 1);
  EXPECT_EQ(layout.numel, 1536);
}

TEST(Buckets, RunFromTheEndAndCutLargeSegments) {
  const FlatLayout layout = FlatLayout::make({{1, 256}, {1, 1500}, {1, 256}, {1, 10}, {1, 200}});
  const std::vector<Bucket> buckets = plan_buckets(layout, 600);  // at most 512
  ASSERT_EQ(buckets.size(), 6u);
  EXPECT_EQ(buckets[0].elements, (Range{2048, 2560}));
  EXPECT_EQ(buckets[0].segments, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(buckets[1].elements, (Range{1792, 2048}));
  EXPECT_EQ(buckets[2].elements, (Range{1280, 1792}));
  EXPECT_EQ(buckets[4].elements, (Range{256, 768}));
  EXPECT_EQ(buckets[4].segments, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(buckets[5].elements, (Range{0, 256}));
}

TEST(Buckets, CoverEveryElementOnceAndListEverySegment) {
  const FlatLayout layout = FlatLayout::make({{3, 700}, {1, 0}, {2, 256}, {1, 9000}, {4, 31}});
  for (std::int64_t size : {1, 256, 511, 1000, 4096, 1 << 20}) {
    std::int64_t end = layout.numel;
    for (const Bucket& b : plan_buckets(layout, size)) {
      EXPECT_EQ(b.elements.last, end);
      EXPECT_GT(b.elements.size(), 0);
      EXPECT_LE(b.elements.size(), std::max<std::int64_t>(size, 256));
      EXPECT_EQ(b.elements.first % 256, 0);
      std::vector<std::int64_t> overlapping;
      for (std::size_t s = 0; s < layout.segments.size(); ++s) {
        const Segment& segment = layout.segments[s];
        if (segment.offset < b.elements.last && segment.offset + segment.padded() > b.elements.first &&
            segment.padded() > 0)
          overlapping.push_back(static_cast<std::int64_t>(s));
      }
      EXPECT_EQ(b.segments, overlapping);
      end = b.elements.first;
    }
    EXPECT_EQ(end, 0) << "bucket of " << size;
  }
  EXPECT_TRUE(plan_buckets(FlatLayout::make({}), 100).empty());
  EXPECT_MESSAGE(plan_buckets(layout, 0), ConfigError, "buckets of 0 elements");
}

}  // namespace
}  // namespace shoal::shard
