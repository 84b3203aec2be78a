// The ordered sum of reproducible mode on memory that one process can see (docs/numerics.md, R3).
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "comm/header.hpp"
#include "shoal/core/dtype.hpp"

namespace shoal::comm {

// The tree over all ranks' nodes, in rank order. Nodes of 16-bit types are leaves (communicator.hpp), so that their
// tree is the plain one, summed in FP32 and rounded once.
class TreeSum {
 public:
  // From the ranks' runs of leaves.
  explicit TreeSum(const std::vector<Header>& headers);

  int nodes() const { return static_cast<int>(nodes_); }
  int nodes_of(int rank) const { return per_rank_[rank]; }
  // out = the tree's sum of sources[0 .. nodes()), which are not changed unless out is one of them.
  void sum(DType dtype, const std::vector<const void*>& sources, void* out, std::int64_t count) const {
    sum_to(dtype, sources, &out, 1, false, count);
  }
  // The same, written to each of `copies` arrays. stream: past the caches.
  void sum_to(DType dtype, const std::vector<const void*>& sources, void* const* out, int copies, bool stream,
              std::int64_t count) const;

 private:
  std::size_t nodes_ = 0;
  std::vector<int> per_rank_;
  std::vector<std::pair<std::int64_t, std::int64_t>> steps_;  // position i += position j
  bool plain_ = false;  // the same tree as that over equal leaves, which ops::combine does in registers
};

}  // namespace shoal::comm
