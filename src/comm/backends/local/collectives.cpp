// Each rank's share of the operations, run while all ranks' buffers are in place. Work is cut in blocks that
// stay in the cache between the sum and its copies.
#include <algorithm>
#include <cstring>

#include "comm/backends/local/communicator.hpp"
#include "comm/tree_sum.hpp"
#include "shoal/ops/reduce.hpp"

namespace shoal::comm::local {
namespace {

constexpr std::int64_t block = 16384;         // elements
constexpr std::int64_t helped_bytes = 65536;  // from here a root helps with the copies of a broadcast

}  // namespace

void copy_out(void* to, const void* from, std::int64_t n, bool stream) {
  if (n == 0 || to == from) return;
  if (stream)
    ops::copy_past_caches(from, to, n);
  else
    std::memcpy(to, from, n);
}

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

// Results that a core's own caches would not keep are written past them, unless each line has just been read.
bool LocalCommunicator::past_caches(const Operation& op, const void* in, const void* out) const {
  const bool whole = op.is(Kind::all_gather) || op.is(Kind::all_to_all);  // every rank's result has all parts
  const std::int64_t written = op.nbytes() * (whole && !op.v() ? size() : 1);
  return in != out && written >= group_->host->tuning.stream_bytes;
}

// n S bytes read and n S written by all ranks together: this rank reads its part of every buffer and writes the sum to
// all, in one pass.
void LocalCommunicator::share_all_reduce(const Operation& op, const std::vector<double>& scales) const {
  const std::int64_t width = size_of(op.dtype);
  const Part part = part_of(op.count, size(), rank());
  const bool stream = past_caches(op, in_of(rank()), out_of(rank()));
  std::vector<const void*> sources(size());
  std::vector<void*> sums(size());
  for (std::int64_t done = 0; done < part.size; done += block) {
    const std::int64_t len = std::min(block, part.size - done), offset = (part.begin + done) * width;
    for (int q = 0; q < size(); ++q) {
      sources[q] = in_of(q) + offset;
      sums[q] = out_of(q) + offset;
    }
    combine_to(op, sources, sums.data(), size(), stream, len, scales);
  }
}

void LocalCommunicator::share_reduce(const Operation& op, const std::vector<double>& scales) const {
  const Part part = part_of(op.count, size(), rank());
  const std::int64_t offset = part.begin * size_of(op.dtype);
  std::vector<const void*> sources(size());
  for (int q = 0; q < size(); ++q) sources[q] = in_of(q) + offset;
  void* sum = out_of(op.root) + offset;
  combine_to(op, sources, &sum, 1, past_caches(op, in_of(op.root), out_of(op.root)), part.size, scales);
}

void LocalCommunicator::share_reduce_scatter(const Operation& op, const std::vector<double>& scales) const {
  std::vector<const void*> sources(size());
  for (int q = 0; q < size(); ++q) sources[q] = in_of(q) + op.part_offset(rank());
  void* sum = out_of(rank());
  const bool stream = past_caches(op, in_of(rank()) + op.part_offset(rank()), sum);
  combine_to(op, sources, &sum, 1, stream, op.part_count(rank()), scales);
}

void LocalCommunicator::share_all_gather(const Operation& op) const {
  for (int i = 0; i < size(); ++i) {
    const int q = (rank() + i) % size();  // not all from the same rank at once
    copy_out(out_of(rank()) + op.part_offset(q), in_of(q), op.part_bytes(q), past_caches(op, in_, out_));
  }
}

// n - 1 copies, which n ranks make: the root brings each of the others its last n-th, where it sees their buffers.
void LocalCommunicator::share_broadcast(const Operation& op) const {
  const bool stream = past_caches(op, nullptr, out_of(rank()));
  bool helps = op.nbytes() >= helped_bytes;
  for (int q = 0; q < size(); ++q) helps = helps && out_of(q) && !views_[q].out_apart;
  const std::int64_t own = helps ? op.nbytes() / size() * (size() - 1) / 64 * 64 : op.nbytes();
  if (rank() != op.root) return copy_out(out_of(rank()), in_of(op.root), own, stream);
  for (int i = 1; helps && i < size(); ++i) {
    const int q = (rank() + i) % size();
    copy_out(out_of(q) + own, in_ + own, op.nbytes() - own, stream);
  }
}

void LocalCommunicator::share_gather(const Operation& op) const {
  copy_out(out_of(op.root) + op.part_offset(rank()), in_of(rank()), op.part_bytes(rank()),
           past_caches(op, in_, out_));
}

void LocalCommunicator::share_scatter(const Operation& op) const {
  copy_out(out_of(rank()), in_of(op.root) + op.part_offset(rank()), op.part_bytes(rank()),
           past_caches(op, in_, out_));
}

// Of what rank q sends here in an all_to_all: the first element's place in its buffer.
std::int64_t LocalCommunicator::offset_at(const Operation& op, int q) const {
  if (!op.v()) return rank() * op.count;
  std::int64_t begin = 0;
  for (int r = 0; r < rank(); ++r) begin += sent(q, r);
  return begin;
}

void LocalCommunicator::share_all_to_all(const Operation& op) const {
  const std::int64_t width = size_of(op.dtype);
  for (int i = 0; i < size(); ++i) {
    const int q = (rank() + i) % size();
    copy_out(out_of(rank()) + op.received_offset(q), in_of(q) + offset_at(op, q) * width,
             op.received_bytes(q), past_caches(op, in_, out_));
  }
}

std::vector<const void*> LocalCommunicator::nodes_at(std::int64_t offset) const {
  std::vector<const void*> sources;
  for (int q = 0; q < size(); ++q)
    for (const void* node : views_[q].nodes) sources.push_back(static_cast<const std::byte*>(node) + offset);
  return sources;
}

void LocalCommunicator::share_tree(const Operation& op, const std::vector<Header>& headers) const {
  const TreeSum tree(headers);
  const std::int64_t width = size_of(op.dtype);
  const bool scatter = op.is(Kind::reduce_scatter_tree);
  int own = 0;  // where this rank's nodes begin, if it has any
  for (int q = 0; q < rank(); ++q) own += tree.nodes_of(q);
  const Part part =
      scatter ? Part{op.count / size() * rank(), op.count / size()} : part_of(op.count, size(), rank());
  std::vector<void*> sums(scatter ? 1 : size());
  for (std::int64_t done = 0; done < part.size; done += block) {
    const std::int64_t len = std::min(block, part.size - done), offset = (part.begin + done) * width;
    if (scatter) sums[0] = out_of(rank()) + done * width;
    for (int q = 0; !scatter && q < size(); ++q) sums[q] = out_of(q) + offset;
    const std::vector<const void*> sources = nodes_at(offset);
    const void* first = tree.nodes_of(rank()) > 0 ? sources[own] : nullptr;
    const bool stream = past_caches(op, first, sums[scatter ? 0 : rank()]);
    tree.sum_to(op.dtype, sources, sums.data(), static_cast<int>(sums.size()), stream, len);
  }
}

}  // namespace shoal::comm::local
