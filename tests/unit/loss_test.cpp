// The order of the loss's sum.
#include "shoal/train/loss.hpp"

#include <gtest/gtest.h>

namespace shoal::train {
namespace {

// One after another every 1 would be lost in 1e16, whose neighbours are 2 apart.
TEST(Loss, IsSummedByTheTree) {
  EXPECT_EQ(tree_sum({1e16, 1, 1, 1}), 1e16 + 2);
  EXPECT_EQ(tree_sum({1, 1, 1e16}), 1e16 + 2);
  EXPECT_EQ(tree_sum({1e16, 1, 1}), 1e16);  // the pair without its right half is passed up
  EXPECT_EQ(tree_sum({3}), 3);
  EXPECT_EQ(tree_sum({}), 0);
}

}  // namespace
}  // namespace shoal::train
