// What a rank shows of its buffers, and the way that all ranks take from what they see.
#include <fmt/format.h>

#include <algorithm>

#include "comm/backends/local/communicator.hpp"
#include "shoal/core/error.hpp"

namespace shoal::comm::local {
namespace {

constexpr BufferRef unseen{BufferRef::unseen, 0};

struct Seen {
  bool in, out, nodes;
};

// Whose memory the shares of collectives.cpp touch, other than their own.
Seen needed(const Operation& op, int rank) {
  switch (op.kind) {
    case Kind::all_reduce: return {true, true, false};
    case Kind::reduce: return {true, rank == op.root, false};
    case Kind::gather: return {false, rank == op.root, false};
    case Kind::scatter:
    case Kind::broadcast: return {rank == op.root, false, false};
    case Kind::reduce_scatter:
    case Kind::all_gather:
    case Kind::all_to_all: return {true, false, false};
    case Kind::reduce_tree: return {false, true, true};
    case Kind::reduce_scatter_tree: return {false, false, true};
    default: return {false, false, false};
  }
}

}  // namespace

BufferRef LocalCommunicator::ref_of(const void* p, std::int64_t bytes) const {
  if (!p || bytes == 0) return {BufferRef::address, 0};
  if (!group_->host->tuning.direct) return unseen;
  if (!group_->host->processes) return {BufferRef::address, reinterpret_cast<std::intptr_t>(p)};
  const SegmentTable::Found found = group_->host->segments.find(p, bytes);
  if (found.home && group_->within(found.home)) return found.ref;
  return group_->host->single_copy ? BufferRef{BufferRef::apart, reinterpret_cast<std::intptr_t>(p)} : unseen;
}

void LocalCommunicator::show_buffers(const Operation& op, Show& mine) {
  mine.in = mine.out = unseen;
  mine.nodes = 0;
  mine.window = window(op, 0, static_cast<int>(op.nodes.size()));
  mine.steps = 1;
  mine.shown = shown_inline;
  if (op.nothing()) return;
  if (op.is(Kind::all_to_all) && op.v()) {
    if (size() > Show::most_counts)
      throw CommError(
          fmt::format("{} among {} ranks of one host: at most {}", describe(op), size(), Show::most_counts));
    std::copy(op.counts.begin(), op.counts.end(), mine.counts[0]);
    std::copy(op.recv_counts.begin(), op.recv_counts.end(), mine.counts[1]);
  }
  if (shown_bytes(op, mine.window) <= group_->host->tuning.inline_bytes) {
    publish(op, 0, mine.window, mine.data);
    return;
  }
  mine.shown = shown_buffers;
  const Seen need = needed(op, rank());
  mine.in = ref_of(in_, op.in.nbytes());
  mine.out = ref_of(out_, op.out.nbytes());
  bool seen = (!need.in || mine.in.seen()) && (!need.out || mine.out.seen());
  mine.nodes = op.nodes.size() <= Show::most_nodes ? static_cast<std::int32_t>(op.nodes.size()) : -1;
  for (int i = 0; i < mine.nodes; ++i) {
    mine.node[i] = ref_of(op.nodes[i].data(), op.nodes[i].nbytes());
    seen = seen && mine.node[i].seen();
  }
  seen = seen && mine.nodes >= 0;
  if (!op.tree()) {
    mine.window = window(op, group_->host->tuning.stage_bytes, 0);
    mine.steps = steps(op, mine.window);
    if (seen) return;
    if (mine.in.readable() && mine.out.readable() && copies_apart(op, window(op, 0, 0))) {
      mine.shown = shown_apart;
      return;
    }
    commit_stage(op);
    publish(op, 0, mine.window, group_->block->layout.stage(group_->control(), rank(), (meetings_ + 1) & 1));
  }
  if (!seen) mine.shown = shown_in_stage;
}

LocalCommunicator::Path LocalCommunicator::path() const {
  bool all_inline = true, all_seen = true, all_readable = true;
  for (int q = 0; q < size(); ++q) {
    const std::int32_t shown = group_->show(operations, q, meetings_).shown;
    all_inline = all_inline && shown == shown_inline;
    all_seen = all_seen && shown == shown_buffers;
    all_readable = all_readable && (shown == shown_buffers || shown == shown_apart);
  }
  return all_inline ? Path::in_line : all_seen ? Path::direct : all_readable ? Path::apart : Path::staged;
}

// Every rank's buffers as this one's pointers.
void LocalCommunicator::view(const Operation& op) {
  const auto pointer = [&](const BufferRef& ref) -> std::byte* {
    if (!ref.readable()) return nullptr;
    if (ref.segment == BufferRef::address || ref.segment == BufferRef::apart)
      return reinterpret_cast<std::byte*>(ref.offset);
    std::byte* p = group_->host->segments.at(ref);
    if (!p) throw CommError(name() + ": a shared buffer that this rank has not mapped");
    return p;
  };
  for (int q = 0; q < size(); ++q) {
    const Show& s = group_->show(operations, q, meetings_);
    View& v = views_[q];
    v.in = q == rank() ? in_ : pointer(s.in);
    v.out = q == rank() ? out_ : pointer(s.out);
    v.in_apart = s.in.segment == BufferRef::apart;
    v.out_apart = s.out.segment == BufferRef::apart;
    v.nodes.clear();
    for (int i = 0; i < s.nodes; ++i)
      v.nodes.push_back(q == rank() ? op.nodes[i].data() : pointer(s.node[i]));
  }
}

}  // namespace shoal::comm::local
