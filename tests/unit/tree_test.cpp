#include "shoal/shard/tree.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "shoal/core/error.hpp"

namespace shoal::shard {
namespace {

// Sums are written as expressions: two orders are the same exactly when the strings are.
std::string add(const std::string& a, const std::string& b) { return "(" + a + "+" + b + ")"; }

// The definition, read literally: node (level, index) is its left half plus its right half, where there is
// one.
std::string definition(std::int64_t n, int level, std::int64_t index) {
  if (level == 0) return std::to_string(index);
  const std::string left = definition(n, level - 1, 2 * index);
  if ((2 * index + 1) << (level - 1) >= n) return left;
  return add(left, definition(n, level - 1, 2 * index + 1));
}
std::string definition(std::int64_t n) { return definition(n, 7, 0); }

TEST(Tree, PairsNeighboursFirst) {
  std::vector<std::pair<std::int64_t, std::int64_t>> calls;
  tree_reduce(5, [&](std::int64_t i, std::int64_t j) { calls.emplace_back(i, j); });
  EXPECT_EQ(calls, (std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 1}, {2, 3}, {0, 2}, {0, 4}}));
}

TEST(Tree, ReduceFollowsTheDefinition) {
  for (std::int64_t n = 1; n <= 70; ++n) {
    std::vector<std::string> slot(n);
    for (std::int64_t i = 0; i < n; ++i) slot[i] = std::to_string(i);
    tree_reduce(n, [&](std::int64_t i, std::int64_t j) { slot[i] = add(slot[i], slot[j]); });
    EXPECT_EQ(slot[0], definition(n)) << n;
  }
}

TEST(Tree, MaximalNodesOfKnownRuns) {
  EXPECT_EQ(tree_nodes(12, 0, 12), (std::vector<TreeNode>{{4, 0, 0, 12}}));
  EXPECT_EQ(tree_nodes(12, 3, 9), (std::vector<TreeNode>{{0, 3, 3, 4}, {2, 1, 4, 8}, {0, 8, 8, 9}}));
  EXPECT_EQ(tree_nodes(12, 8, 12), (std::vector<TreeNode>{{2, 2, 8, 12}}));
  EXPECT_EQ(tree_nodes(5, 4, 5), (std::vector<TreeNode>{{0, 4, 4, 5}}));
  EXPECT_TRUE(tree_nodes(5, 2, 2).empty());
}

// Any cut of any tree, each part summed by a carry stack, then the nodes of all parts: the bits of the whole.
TEST(Tree, EveryCutInThreeRunsGivesTheSameOrder) {
  for (std::int64_t n = 1; n <= 20; ++n)
    for (std::int64_t a = 0; a <= n; ++a)
      for (std::int64_t b = a; b <= n; ++b) {
        const std::int64_t cuts[] = {0, a, b, n};
        std::vector<TreeNode> nodes;
        std::vector<std::string> sums;
        for (int part = 0; part < 3; ++part) {
          CarryStack stack(n, cuts[part]);
          std::vector<std::string> slots;
          for (std::int64_t leaf = cuts[part]; leaf < cuts[part + 1]; ++leaf) {
            ASSERT_EQ(static_cast<int>(slots.size()), stack.depth());
            ASSERT_LT(stack.depth(), CarryStack::max_depth(n, cuts[part], cuts[part + 1]));
            slots.push_back(std::to_string(leaf));
            stack.push([&](int i, int j) {
              ASSERT_EQ(j, static_cast<int>(slots.size()) - 1);
              slots[i] = add(slots[i], slots[j]);
              slots.pop_back();
            });
          }
          ASSERT_EQ(stack.nodes(), tree_nodes(n, cuts[part], cuts[part + 1])) << n << " " << a << " " << b;
          nodes.insert(nodes.end(), stack.nodes().begin(), stack.nodes().end());
          sums.insert(sums.end(), slots.begin(), slots.end());
        }
        tree_reduce_nodes(nodes, n, [&](std::int64_t i, std::int64_t j) { sums[i] = add(sums[i], sums[j]); });
        ASSERT_EQ(sums[0], definition(n)) << n << " " << a << " " << b;
      }
}

TEST(Tree, StackDepthIsLogarithmic) {
  EXPECT_EQ(CarryStack::max_depth(1024, 0, 1024), 11);
  EXPECT_EQ(CarryStack::max_depth(12, 0, 3), 2);
  EXPECT_EQ(CarryStack::max_depth(12, 4, 4), 0);
}

TEST(Tree, RefusesRunsAndNodesThatAreNone) {
  EXPECT_THROW(tree_nodes(5, 2, 6), ConfigError);
  EXPECT_THROW(tree_nodes(5, 3, 2), ConfigError);
  const auto nothing = [](std::int64_t, std::int64_t) {};
  EXPECT_THROW(tree_reduce_nodes({{0, 0, 0, 1}}, 2, nothing), ConfigError);  // a gap at the end
  EXPECT_THROW(tree_reduce_nodes({{0, 0, 0, 1}, {1, 0, 1, 3}}, 3, nothing),
               ConfigError);  // [1, 3) is no node
  EXPECT_THROW(tree_reduce_nodes({{1, 0, 0, 2}, {0, 1, 1, 2}}, 2, nothing), ConfigError);  // overlap
}

}  // namespace
}  // namespace shoal::shard
