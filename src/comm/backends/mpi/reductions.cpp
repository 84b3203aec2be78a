// Sums. Each rank receives its part of every rank's buffer, sums by the tree, and the sums are gathered:
// every element is summed once, on one rank, so all ranks have the same bits; each rank moves 2 (n-1)/n of
// the buffer, which is the least possible. In segments, so that scratch stays small, and the next segment
// travels while this one is summed.
#include <algorithm>
#include <cstring>

#include "comm/backends/mpi/communicator.hpp"
#include "comm/tree_sum.hpp"

namespace shoal::comm::mpi {
namespace {

constexpr std::int64_t part_bytes = std::int64_t{1} << 20;  // a rank's part of a segment
constexpr std::size_t depth =
    8;  // segments of an all-reduce under way: a throttled link is then never without data

std::byte* at(void* p, std::int64_t offset) { return static_cast<std::byte*>(p) + offset; }

struct Segment {
  std::int64_t begin, count;
};

std::vector<Segment> cut(std::int64_t count, std::int64_t segment) {
  std::vector<Segment> segments;
  for (std::int64_t begin = 0; begin < count; begin += segment)
    segments.push_back({begin, std::min(segment, count - begin)});
  return segments;
}

}  // namespace

// Everybody sends everything: one round, for buffers that cost less than a round does.
void MpiCommunicator::all_reduce_small(const Operation& op) {
  const std::int64_t nbytes = op.nbytes();
  std::byte* room = scratch(nbytes * size());
  std::vector<const void*> sources(size());
  Exchange e = exchange();
  for (int q = 0; q < size(); ++q) {
    sources[q] = q == rank() ? op.in.data() : room + q * nbytes;
    if (q != rank()) e.recv(q, room + q * nbytes, nbytes);
  }
  for (int q = 0; q < size(); ++q)
    if (q != rank()) e.send(q, op.in.data(), nbytes);
  wait(e, op, true);
  combine(op, sources, op.out.data(), op.count, scales_);
}

// Also reduce: there only the root receives the sums.
void MpiCommunicator::all_reduce(const Operation& op) {
  const std::int64_t width = size_of(op.dtype);
  // All slots together stay below 64 MiB where there are many ranks.
  const std::int64_t part =
      std::clamp<std::int64_t>((std::int64_t{64} << 20) / (depth * (size() + 1)), 65536, part_bytes);
  const std::vector<Segment> segments = cut(op.count, part / width * size());
  const std::int64_t most = part_of(segments[0].count, size(), 0).size * width;
  // A slot holds what a segment under way needs: the parts received, and the sum of a reduce. All slots are filled at
  // once, so that the network has the next segments' messages at hand while one is agreed on and summed.
  const auto slots = std::min(depth, segments.size());
  std::byte* room = scratch(static_cast<std::int64_t>(slots) * (size() + 1) * most);
  const auto received = [&](std::size_t s, int q) {  // q = size(): the sum
    return room + (static_cast<std::int64_t>(s % slots) * (size() + 1) + q) * most;
  };
  const auto span = [&](std::size_t s, int q) {  // rank q's part of segment s, in bytes of the whole buffer
    const Part p = part_of(segments[s].count, size(), q);
    return Part{(segments[s].begin + p.begin) * width, p.size * width};
  };
  std::vector<Exchange> scattering(slots, exchange()), gathering(slots, exchange());
  const auto scatter = [&](std::size_t s) {
    Exchange& e = scattering[s % slots];
    for (int q = 0; q < size(); ++q)
      if (q != rank()) e.recv(q, received(s, q), span(s, rank()).size);
    for (int i = 1; i < size(); ++i) {
      const int q = (rank() + i) % size();
      e.send(q, at(op.in.data(), span(s, q).begin), span(s, q).size);
    }
  };
  for (std::size_t s = 0; s < slots; ++s) scatter(s);
  std::vector<const void*> sources(size());
  // A reduce sums on a rank other than the root into scratch: its `out` is not to be touched.
  const bool rooted = op.kind == Kind::reduce;
  for (std::size_t s = 0; s < segments.size(); ++s) {
    wait(scattering[s % slots], op, false);
    wait(gathering[s % slots], op, false);
    const Part mine = span(s, rank());
    for (int q = 0; q < size(); ++q)
      sources[q] = q == rank() ? static_cast<const void*>(at(op.in.data(), mine.begin)) : received(s, q);
    std::byte* sum = rooted && rank() != op.root ? received(s, size()) : at(op.out.data(), mine.begin);
    combine(op, sources, sum, mine.size / width, scales_);
    Exchange& e = gathering[s % slots];
    for (int i = 1; i < size(); ++i) {
      const int q = (rank() + i) % size();
      if (!rooted || rank() == op.root) e.recv(q, at(op.out.data(), span(s, q).begin), span(s, q).size, 2);
      if (!rooted || q == op.root) e.send(q, sum, mine.size, 2);
    }
    if (s + slots < segments.size()) scatter(s + slots);
  }
  for (Exchange& e : gathering) wait(e, op, false);
}

// Parts may differ in size (the v form): a segment is the same stretch of every part, as far as each goes.
void MpiCommunicator::reduce_scatter(const Operation& op, void* result) {
  const std::int64_t width = size_of(op.dtype);
  std::int64_t longest = 0;
  for (int q = 0; q < size(); ++q) longest = std::max(longest, op.part_count(q));
  const std::vector<Segment> segments = cut(longest, part_bytes / width);
  const std::int64_t most = segments[0].count * width;
  std::byte* room = scratch(2 * most * size());
  const auto length = [&](std::size_t s, int q) {  // of segment s in q's part, in elements
    return std::clamp<std::int64_t>(op.part_count(q) - segments[s].begin, 0, segments[s].count);
  };
  const auto piece = [&](std::size_t s, int q) {
    return at(op.in.data(), op.part_offset(q) + segments[s].begin * width);
  };
  const auto scatter = [&](std::size_t s, Exchange& e) {
    for (int q = 0; q < size(); ++q)
      if (q != rank()) e.recv(q, room + (s % 2 * size() + q) * most, length(s, rank()) * width);
    for (int i = 1; i < size(); ++i) {
      const int q = (rank() + i) % size();
      e.send(q, piece(s, q), length(s, q) * width);
    }
  };
  Exchange e = exchange();
  scatter(0, e);
  std::vector<const void*> sources(size());
  for (std::size_t s = 0; s < segments.size(); ++s) {
    wait(e, op, false);
    if (s + 1 < segments.size()) scatter(s + 1, e);
    for (int q = 0; q < size(); ++q)
      sources[q] = q == rank() ? static_cast<const void*>(piece(s, q)) : room + (s % 2 * size() + q) * most;
    combine(op, sources, at(result, segments[s].begin * width), length(s, rank()), scales_);
  }
}

// The same two phases, with all nodes of all ranks in place of one buffer a rank.
void MpiCommunicator::tree(const Operation& op, const std::vector<Header>& headers) {
  const TreeSum sum(headers);
  const std::int64_t width = size_of(op.dtype);
  const bool whole = op.kind == Kind::reduce_tree;
  const std::int64_t each = op.count / size();  // the scatter form's part
  const std::vector<Segment> segments = cut(whole ? op.count : each, part_bytes / width);
  const std::int64_t most = (whole ? part_of(segments[0].count, size(), 0).size : segments[0].count) * width;
  std::byte* room = scratch(most * sum.nodes());
  std::vector<const void*> sources(sum.nodes());
  for (const Segment& segment : segments) {
    const auto span = [&](int q) {  // rank q's part of this segment, in bytes of a node
      if (!whole) return Part{(q * each + segment.begin) * width, segment.count * width};
      const Part p = part_of(segment.count, size(), q);
      return Part{(segment.begin + p.begin) * width, p.size * width};
    };
    Exchange e = exchange();
    for (int q = 0, node = 0; q < size(); ++q)
      for (int i = 0; i < sum.nodes_of(q); ++i, ++node) {
        sources[node] = q == rank() ? static_cast<const void*>(at(op.nodes[i].data(), span(rank()).begin))
                                    : room + node * most;
        if (q != rank()) e.recv(q, room + node * most, span(rank()).size);
      }
    for (int i = 1; i < size(); ++i)
      for (const Tensor& node : op.nodes) {
        const int q = (rank() + i) % size();
        e.send(q, at(node.data(), span(q).begin), span(q).size);
      }
    wait(e, op, false);
    const Part mine = span(rank());
    std::byte* out = at(op.out.data(), whole ? mine.begin : segment.begin * width);
    sum.sum(op.dtype, sources, out, mine.size / width);
    if (!whole) continue;
    for (int i = 1; i < size(); ++i) {
      const int q = (rank() + i) % size();
      e.recv(q, at(op.out.data(), span(q).begin), span(q).size, 2);
      e.send(q, out, mine.size, 2);
    }
    wait(e, op, false);
  }
}

}  // namespace shoal::comm::mpi
