// Each rank's share of the operations, run while all ranks' buffers are in place. Work is cut in blocks that
// stay in the cache between the sum and its copies.
#include <algorithm>
#include <cstring>

#include "comm/backends/local/communicator.hpp"
#include "comm/tree_sum.hpp"

namespace shoal::comm::local {
namespace {

constexpr std::int64_t block = 16384;  // elements

void copy_bytes(void* to, const void* from, std::int64_t n) {
  if (n > 0 && to != from) std::memcpy(to, from, n);
}

}  // namespace

void LocalCommunicator::share(const Operation& op, const std::vector<Header>& headers) const {
  if (op.nothing()) return;
  switch (op.kind) {
    case Kind::all_reduce: return share_all_reduce(op, scales_of(headers));
    case Kind::reduce: return share_reduce(op, scales_of(headers));
    case Kind::reduce_scatter: return share_reduce_scatter(op, scales_of(headers));
    case Kind::all_gather: return share_all_gather(op);
    case Kind::broadcast: return share_broadcast(op);
    case Kind::gather: return share_gather(op);
    case Kind::scatter: return share_scatter(op);
    case Kind::all_to_all: return share_all_to_all(op);
    case Kind::reduce_tree:
    case Kind::reduce_scatter_tree: return share_tree(op, headers);
    case Kind::barrier:
    case Kind::split:
    case Kind::send:
    case Kind::recv: return;
  }
}

// The sum of this rank's part goes to its own buffer, and from there, still in the cache, to all others.
void LocalCommunicator::share_all_reduce(const Operation& op, const std::vector<double>& scales) const {
  const std::int64_t width = size_of(op.dtype);
  const Part part = part_of(op.count, size(), rank());
  std::vector<const void*> sources(size());
  for (std::int64_t done = 0; done < part.size; done += block) {
    const std::int64_t len = std::min(block, part.size - done), offset = (part.begin + done) * width;
    for (int q = 0; q < size(); ++q) sources[q] = in_of(q) + offset;
    std::byte* sum = out_of(rank()) + offset;
    combine(op, sources, sum, len, scales);
    for (int q = 0; q < size(); ++q) copy_bytes(out_of(q) + offset, sum, len * width);
  }
}

void LocalCommunicator::share_reduce(const Operation& op, const std::vector<double>& scales) const {
  const Part part = part_of(op.count, size(), rank());
  const std::int64_t offset = part.begin * size_of(op.dtype);
  std::vector<const void*> sources(size());
  for (int q = 0; q < size(); ++q) sources[q] = in_of(q) + offset;
  combine(op, sources, out_of(op.root) + offset, part.size, scales);
}

void LocalCommunicator::share_reduce_scatter(const Operation& op, const std::vector<double>& scales) const {
  std::vector<const void*> sources(size());
  for (int q = 0; q < size(); ++q) sources[q] = in_of(q) + op.part_offset(rank());
  combine(op, sources, out_of(rank()), op.part_count(rank()), scales);
}

void LocalCommunicator::share_all_gather(const Operation& op) const {
  for (int i = 0; i < size(); ++i) {
    const int q = (rank() + i) % size();  // not all from the same rank at once
    copy_bytes(out_of(rank()) + op.part_offset(q), in_of(q), op.part_bytes(q));
  }
}

void LocalCommunicator::share_broadcast(const Operation& op) const {
  copy_bytes(out_of(rank()), in_of(op.root), op.nbytes());
}

void LocalCommunicator::share_gather(const Operation& op) const {
  copy_bytes(out_of(op.root) + op.part_offset(rank()), in_of(rank()), op.part_bytes(rank()));
}

void LocalCommunicator::share_scatter(const Operation& op) const {
  copy_bytes(out_of(rank()), in_of(op.root) + op.part_offset(rank()), op.part_bytes(rank()));
}

void LocalCommunicator::share_all_to_all(const Operation& op) const {
  const std::int64_t width = size_of(op.dtype);
  for (int i = 0; i < size(); ++i) {
    const int q = (rank() + i) % size();
    std::int64_t begin = rank() * op.count;  // of what q sends here, in its buffer
    if (op.v()) {
      begin = 0;
      for (int r = 0; r < rank(); ++r) begin += sent(q, r);
    }
    copy_bytes(out_of(rank()) + op.received_offset(q), in_of(q) + begin * width, op.received_bytes(q));
  }
}

std::vector<const void*> LocalCommunicator::nodes_at(std::int64_t offset) const {
  std::vector<const void*> sources;
  for (const Slot& s : group_->slots)
    for (const void* node : s.nodes) sources.push_back(static_cast<const std::byte*>(node) + offset);
  return sources;
}

void LocalCommunicator::share_tree(const Operation& op, const std::vector<Header>& headers) const {
  const TreeSum tree(headers);
  const std::int64_t width = size_of(op.dtype);
  const bool scatter = op.is(Kind::reduce_scatter_tree);
  const Part part =
      scatter ? Part{op.count / size() * rank(), op.count / size()} : part_of(op.count, size(), rank());
  for (std::int64_t done = 0; done < part.size; done += block) {
    const std::int64_t len = std::min(block, part.size - done), offset = (part.begin + done) * width;
    std::byte* sum = out_of(rank()) + (scatter ? done * width : offset);
    tree.sum(op.dtype, nodes_at(offset), sum, len);
    if (scatter) continue;
    for (int q = 0; q < size(); ++q) copy_bytes(out_of(q) + offset, sum, len * width);
  }
}

}  // namespace shoal::comm::local
