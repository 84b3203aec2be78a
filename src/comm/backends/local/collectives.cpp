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

std::byte* at(void* p, std::int64_t offset) { return static_cast<std::byte*>(p) + offset; }
const std::byte* at(const void* p, std::int64_t offset) { return static_cast<const std::byte*>(p) + offset; }

}  // namespace

void LocalCommunicator::share(const Operation& op, const std::vector<Header>& headers) const {
  if (op.count == 0) return;
  switch (op.kind) {
    case Kind::all_reduce: return share_all_reduce(op);
    case Kind::reduce: return share_reduce(op);
    case Kind::reduce_scatter: return share_reduce_scatter(op);
    case Kind::all_gather: return share_all_gather(op);
    case Kind::broadcast: return share_broadcast(op);
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
void LocalCommunicator::share_all_reduce(const Operation& op) const {
  const std::int64_t width = size_of(op.dtype);
  const Part part = part_of(op.count, size(), rank());
  std::vector<const void*> sources(size());
  for (std::int64_t done = 0; done < part.size; done += block) {
    const std::int64_t len = std::min(block, part.size - done), offset = (part.begin + done) * width;
    for (int q = 0; q < size(); ++q) sources[q] = at(group_->slots[q].in, offset);
    std::byte* sum = at(group_->slots[rank()].out, offset);
    combine(op, sources, sum, len);
    for (int q = 0; q < size(); ++q) copy_bytes(at(group_->slots[q].out, offset), sum, len * width);
  }
}

void LocalCommunicator::share_reduce(const Operation& op) const {
  const std::int64_t offset = part_of(op.count, size(), rank()).begin * size_of(op.dtype);
  std::vector<const void*> sources(size());
  for (int q = 0; q < size(); ++q) sources[q] = at(group_->slots[q].in, offset);
  combine(op, sources, at(group_->slots[op.root].out, offset), part_of(op.count, size(), rank()).size);
}

void LocalCommunicator::share_reduce_scatter(const Operation& op) const {
  std::vector<const void*> sources(size());
  for (int q = 0; q < size(); ++q) sources[q] = at(group_->slots[q].in, rank() * op.nbytes());
  combine(op, sources, group_->slots[rank()].out, op.count);
}

void LocalCommunicator::share_all_gather(const Operation& op) const {
  for (int i = 0; i < size(); ++i) {
    const int q = (rank() + i) % size();  // not all from the same rank at once
    copy_bytes(at(group_->slots[rank()].out, q * op.nbytes()), group_->slots[q].in, op.nbytes());
  }
}

void LocalCommunicator::share_broadcast(const Operation& op) const {
  copy_bytes(group_->slots[rank()].out, group_->slots[op.root].in, op.nbytes());
}

void LocalCommunicator::share_all_to_all(const Operation& op) const {
  for (int i = 0; i < size(); ++i) {
    const int q = (rank() + i) % size();
    copy_bytes(at(group_->slots[rank()].out, q * op.nbytes()), at(group_->slots[q].in, rank() * op.nbytes()),
               op.nbytes());
  }
}

void LocalCommunicator::share_tree(const Operation& op, const std::vector<Header>& headers) const {
  const TreeSum tree(headers);
  const std::int64_t width = size_of(op.dtype);
  const bool scatter = op.kind == Kind::reduce_scatter_tree;
  const Part part =
      scatter ? Part{op.count / size() * rank(), op.count / size()} : part_of(op.count, size(), rank());
  std::vector<const void*> sources;
  for (std::int64_t done = 0; done < part.size; done += block) {
    const std::int64_t len = std::min(block, part.size - done), offset = (part.begin + done) * width;
    sources.clear();
    for (const Slot& s : group_->slots)
      for (const void* node : s.nodes) sources.push_back(at(node, offset));
    std::byte* sum = at(group_->slots[rank()].out, scatter ? done * width : offset);
    tree.sum(op.dtype, sources, sum, len);
    if (scatter) continue;
    for (int q = 0; q < size(); ++q) copy_bytes(at(group_->slots[q].out, offset), sum, len * width);
  }
}

}  // namespace shoal::comm::local
