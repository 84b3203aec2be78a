#include "shoal/core/text.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace shoal::text {
namespace {

TEST(Text, NumbersAreTheShortestThatReadBack) {
  EXPECT_EQ(number(0.9), "0.9");
  EXPECT_EQ(number(0.1f), "0.1");
  EXPECT_EQ(number(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(number(1e-300), "1e-300");
}

TEST(Text, NotANumberHasNoSign) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr float nanf = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(number(nan), "nan");
  EXPECT_EQ(number(-nan), "nan");
  EXPECT_EQ(number(-nanf), "nan");
  EXPECT_EQ(number(-std::numeric_limits<double>::infinity()), "-inf");
}

TEST(Text, Counts) {
  EXPECT_EQ(count(1, "file"), "1 file");
  EXPECT_EQ(count(0, "file"), "0 files");
  EXPECT_EQ(count(2, "is", "are"), "2 are");
}

TEST(Text, Bytes) {
  EXPECT_EQ(bytes(1 << 20), "1.0 MiB");
  EXPECT_EQ(bytes(std::int64_t{3} << 29), "1.50 GiB");
}

}  // namespace
}  // namespace shoal::text
