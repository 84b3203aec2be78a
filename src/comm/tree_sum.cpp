#include "comm/tree_sum.hpp"

#include <algorithm>
#include <cstring>

#include "shoal/ops/reduce.hpp"
#include "shoal/shard/tree.hpp"

namespace shoal::comm {

TreeSum::TreeSum(const std::vector<Header>& headers) {
  const std::int64_t leaves = headers[0].leaves;
  std::vector<shard::TreeNode> nodes;
  for (const Header& h : headers) {
    std::vector<shard::TreeNode> own;
    if (size_of(h.dtype) == 2)
      for (std::int64_t l = h.first; l < h.last; ++l) own.push_back({0, l, l, l + 1});
    else
      own = shard::tree_nodes(leaves, h.first, h.last);
    per_rank_.push_back(static_cast<int>(own.size()));
    nodes.insert(nodes.end(), own.begin(), own.end());
  }
  nodes_ = nodes.size();
  shard::tree_reduce_nodes(nodes, leaves, [&](std::int64_t i, std::int64_t j) { steps_.emplace_back(i, j); });
  std::vector<std::pair<std::int64_t, std::int64_t>> mine = steps_, plain;
  shard::tree_reduce(nodes_, [&](std::int64_t i, std::int64_t j) { plain.emplace_back(i, j); });
  std::sort(mine.begin(), mine.end());
  std::sort(plain.begin(), plain.end());
  plain_ = mine == plain;
}

void TreeSum::sum_to(DType dtype, const std::vector<const void*>& sources, void* const* out, int copies,
                     bool stream, std::int64_t count) const {
  if (count == 0) return;
  if (plain_) {
    ops::combine_to(ops::Combine::sum, dtype, sources.data(), nodes(), out, copies, stream, count);
    return;
  }
  // In blocks, so that partial sums stay in the cache.
  constexpr std::int64_t block = 2048;
  const std::int64_t width = size_of(dtype);
  std::vector<std::byte> room(nodes_ * block * width);
  std::vector<const void*> at(nodes_);
  std::vector<void*> to(copies);
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t len = std::min(block, count - begin);
    for (std::size_t i = 0; i < nodes_; ++i)
      at[i] = static_cast<const std::byte*>(sources[i]) + begin * width;
    for (int c = 0; c < copies; ++c) to[c] = static_cast<std::byte*>(out[c]) + begin * width;
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      const auto [i, j] = steps_[s];
      const void* pair[] = {at[i], at[j]};
      if (s + 1 == steps_.size()) {
        ops::combine_to(ops::Combine::sum, dtype, pair, 2, to.data(), copies, stream, len);
      } else {
        void* partial = room.data() + i * block * width;
        ops::combine(ops::Combine::sum, dtype, pair, 2, partial, len);
        at[i] = partial;
      }
    }
  }
}

}  // namespace shoal::comm
