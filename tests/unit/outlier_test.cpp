#include "shoal/optim/outlier.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "shoal/core/error.hpp"
#include "support/expect_message.hpp"

namespace shoal::optim {
namespace {

TEST(Outliers, ZScoreIsOfTheSampleInTheWindow) {
  OutlierFilter f({.zscore = 3, .window = 4, .minimum = 3});
  EXPECT_FALSE(f.skip(1));
  EXPECT_FALSE(f.skip(1000));  // too few known
  EXPECT_EQ(f.zscore(1e9), 0);
  f.set_values({1, 2, 3});  // mean 2, deviation 1
  EXPECT_EQ(f.zscore(2), 0);
  EXPECT_EQ(f.zscore(4.5), 2.5);
  EXPECT_EQ(f.zscore(-1), -3);
}

TEST(Outliers, SkippedValuesDoNotJoinAndOldOnesLeave) {
  OutlierFilter f({.zscore = 2, .window = 4, .minimum = 3});
  f.set_values({1, 2, 3});
  EXPECT_TRUE(f.skip(4.25));
  EXPECT_EQ(f.values(), (std::vector<double>{1, 2, 3}));
  EXPECT_FALSE(f.skip(4));  // at the limit, not beyond
  EXPECT_EQ(f.values(), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_FALSE(f.skip(-50));  // small ones are welcome
  EXPECT_EQ(f.values(), (std::vector<double>{2, 3, 4, -50}));
}

TEST(Outliers, WithoutSpreadAnythingLargerIsOne) {
  OutlierFilter f({.zscore = 5, .window = 4, .minimum = 2});
  f.set_values({0.5, 0.5});
  EXPECT_FALSE(f.skip(0.5));
  EXPECT_TRUE(f.skip(0.5 * (1 + 1e-11)));
}

TEST(Outliers, NumbersThatAreNotFiniteNeverJoin) {
  OutlierFilter f({.zscore = 5, .window = 4, .minimum = 2});
  for (const double x : {static_cast<double>(NAN), std::numeric_limits<double>::infinity()})
    EXPECT_TRUE(f.skip(x));
  EXPECT_TRUE(f.values().empty());
}

TEST(Outliers, OffSkipsAndRemembersNothing) {
  OutlierFilter f({});
  EXPECT_FALSE(f.enabled());
  EXPECT_FALSE(f.skip(1));
  EXPECT_FALSE(f.skip(1e30));
  EXPECT_TRUE(f.values().empty());
}

TEST(Outliers, RefusesImpossibleOptionsAndNamesThem) {
  const auto refused = [](const OutlierConfig& c, const char* message) {
    EXPECT_MESSAGE(OutlierFilter{c}, ConfigError, message);
  };
  refused({.zscore = -1}, "outliers.zscore = -1");
  refused({.zscore = NAN}, "outliers.zscore = nan");
  refused({.of = "norm"}, "outliers.of = \"norm\": expected loss or grad_norm");
  refused({.window = 5, .minimum = 6}, "outliers.window = 5: expected at least outliers.minimum = 6");
  refused({.minimum = 1}, "outliers.minimum = 1");
  OutlierFilter f({.zscore = 3, .window = 2, .minimum = 2});
  EXPECT_MESSAGE(f.set_values({1, 2, 3}), ConfigError, "3 values for a window of outliers.window = 2");
}

}  // namespace
}  // namespace shoal::optim
