// The one binary tree of sums (docs/numerics.md, R3). Over n leaves, node (level j, index k) covers leaves
// [k 2^j, min((k+1) 2^j, n)): neighbours are paired first, and a pair without its right half is passed up.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace shoal::shard {

struct TreeNode {
  int level = 0;
  std::int64_t index = 0;
  std::int64_t first = 0, last = 0;  // the leaves it covers
  bool operator==(const TreeNode&) const = default;
};

// The maximal nodes inside the run of leaves [first, last) of a tree over `leaves`, left to right: at most
// 2 log2(leaves). Throws ConfigError unless 0 <= first <= last <= leaves.
std::vector<TreeNode> tree_nodes(std::int64_t leaves, std::int64_t first, std::int64_t last);

// Calls combine(i, j), meaning slot i = slot i + slot j, in the tree's order over slots 0..n-1; the sum ends
// in slot 0. For n = 5: (0,1) (2,3) (0,2) (0,4).
void tree_reduce(std::int64_t n, const std::function<void(std::int64_t, std::int64_t)>& combine);

// The same over nodes that together cover all leaves of a tree (as several ranks' tree_nodes do), given left to
// right: calls combine(i, j) on positions in `nodes` so that the bits equal tree_reduce over the leaves.
void tree_reduce_nodes(const std::vector<TreeNode>& nodes, std::int64_t leaves,
                       const std::function<void(std::int64_t, std::int64_t)>& combine);

// Sums leaves that arrive in order with few buffers: push(leaf) says which stack slots to add before the leaf
// is stored. After leaves first..last-1 were pushed, the stack holds exactly tree_nodes(leaves, first, last).
class CarryStack {
 public:
  CarryStack(std::int64_t leaves, std::int64_t first);
  // The new leaf was written to slot depth(). Calls combine(i, i+1) (slot i += slot i+1) for each completed
  // node, innermost first, and shrinks the stack accordingly.
  void push(const std::function<void(int, int)>& combine);
  int depth() const { return static_cast<int>(stack_.size()); }  // slots in use
  const std::vector<TreeNode>& nodes() const { return stack_; }
  // The most slots that leaves [first, last) ever need, the one being written included.
  static int max_depth(std::int64_t leaves, std::int64_t first, std::int64_t last);

 private:
  std::int64_t leaves_, next_;
  std::vector<TreeNode> stack_;
};

}  // namespace shoal::shard
