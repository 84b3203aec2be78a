#include "shoal/shard/tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "shoal/core/error.hpp"

namespace shoal::shard {
namespace {

// The lowest level at which a node starting at `first` covers `size` leaves.
int level_of(std::int64_t size) { return std::bit_width(static_cast<std::uint64_t>(size - 1)); }

// The node covering exactly [first, last), or none (level -1). A node whose right half lies past the last
// leaf is its left half passed up: the lowest level is its name.
TreeNode node_over(std::int64_t leaves, std::int64_t first, std::int64_t last) {
  const int level = level_of(last - first);
  const std::int64_t width = std::int64_t{1} << level;
  if (first % width != 0 || std::min(first + width, leaves) != last) return {.level = -1};
  return {level, first / width, first, last};
}

void check_run(std::int64_t leaves, std::int64_t first, std::int64_t last) {
  if (first < 0 || last < first || last > leaves)
    throw ConfigError(fmt::format("leaves [{}, {}) of a tree over {} leaves", first, last, leaves));
}

}  // namespace

std::vector<TreeNode> tree_nodes(std::int64_t leaves, std::int64_t first, std::int64_t last) {
  check_run(leaves, first, last);
  std::vector<TreeNode> nodes;
  while (first < last) {
    std::int64_t end = first + 1;
    for (std::int64_t width = 2; first % width == 0 && end < last; width *= 2) {
      const std::int64_t wider = std::min(first + width, leaves);
      if (wider > last) break;
      end = wider;
    }
    nodes.push_back(node_over(leaves, first, end));
    first = end;
  }
  return nodes;
}

void tree_reduce(std::int64_t n, const std::function<void(std::int64_t, std::int64_t)>& combine) {
  for (std::int64_t stride = 1; stride < n; stride *= 2)
    for (std::int64_t i = 0; i + stride < n; i += 2 * stride) combine(i, i + stride);
}

namespace {

struct NodeReducer {
  const std::vector<TreeNode>& nodes;
  std::int64_t leaves;
  const std::function<void(std::int64_t, std::int64_t)>& combine;
  std::int64_t next = 0;  // position of the first node not yet used

  // Position of the sum of node (level, index), which starts at the first leaf of nodes[next].
  std::int64_t reduce(int level, std::int64_t index) {
    const std::int64_t first = index << level;
    const std::int64_t last = std::min((index + 1) << level, leaves);
    if (nodes[next].first == first && nodes[next].last == last) return next++;
    const std::int64_t left = reduce(level - 1, 2 * index);
    if (((2 * index + 1) << (level - 1)) < leaves) combine(left, reduce(level - 1, 2 * index + 1));
    return left;
  }
};

}  // namespace

void tree_reduce_nodes(const std::vector<TreeNode>& nodes, std::int64_t leaves,
                       const std::function<void(std::int64_t, std::int64_t)>& combine) {
  std::int64_t covered = 0;
  for (const TreeNode& n : nodes) {
    if (n.first != covered || n.last <= n.first || n.last > leaves ||
        node_over(leaves, n.first, n.last).level < 0)
      throw ConfigError(
          fmt::format("[{}, {}) is not the next node of a tree over {} leaves, {} of them covered", n.first,
                      n.last, leaves, covered));
    covered = n.last;
  }
  if (covered != leaves)
    throw ConfigError(fmt::format("nodes cover {} of a tree's {} leaves", covered, leaves));
  if (leaves == 0) return;
  NodeReducer{nodes, leaves, combine}.reduce(level_of(leaves), 0);
}

CarryStack::CarryStack(std::int64_t leaves, std::int64_t first) : leaves_(leaves), next_(first) {
  check_run(leaves, first, leaves);
}

void CarryStack::push(const std::function<void(int, int)>& combine) {
  check_run(leaves_, next_, next_ + 1);
  stack_.push_back({0, next_, next_, next_ + 1});
  ++next_;
  while (stack_.size() > 1) {
    const int top = depth() - 1;
    const TreeNode parent = node_over(leaves_, stack_[top - 1].first, stack_[top].last);
    if (parent.level < 0) return;
    combine(top - 1, top);
    stack_.pop_back();
    stack_.back() = parent;
  }
}

int CarryStack::max_depth(std::int64_t leaves, std::int64_t first, std::int64_t last) {
  check_run(leaves, first, last);
  CarryStack stack(leaves, first);
  int most = 0;
  for (std::int64_t leaf = first; leaf < last; ++leaf) {
    most = std::max(most, stack.depth() + 1);
    stack.push([](int, int) {});
  }
  return most;
}

}  // namespace shoal::shard
