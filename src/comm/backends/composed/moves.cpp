// Operations that only move data: each byte crosses the network once a host, and is handed on in each host's memory.
#include <cstring>

#include "comm/backends/composed/communicator.hpp"
#include "comm/backends/composed/layout.hpp"

namespace shoal::comm::composed {
namespace {

std::byte* at(const Tensor& t, std::int64_t element) {
  return static_cast<std::byte*>(t.data()) + element * size_of(t.dtype());
}

}  // namespace

void ComposedCommunicator::barrier() {
  host_->barrier();
  if (host_->rank() == 0) across_->barrier();
  host_->barrier();
}

// The root's host cuts a segment among its rails, each rail passes its part on to the other hosts, and every host puts
// the parts together.
void ComposedCommunicator::broadcast(const Operation& op) {
  const int me = host_->rank(), root_host = hosts_.host_of[op.root];
  const std::int64_t width = size_of(op.dtype);
  const Segments segments = Segments::of(op.count, rail_bytes / width * hosts_.rails);
  const std::int64_t part_bytes = aligned(rail_parts(segments.most())[0] * width);
  const Tensor memory = room(2 * part_bytes);
  const auto part = [&](std::int64_t s) {
    return typed(memory, s % 2 * part_bytes, op.dtype, rail_parts(segments[s].size)[me]);
  };
  const auto segment = [&](std::int64_t s) {
    return op.out.flat().slice(segments[s].begin, segments[s].begin + segments[s].size);
  };
  Work travelling[2];
  const auto begin = [&](std::int64_t s) {
    if (hosts_.host_of[rank()] == root_host)
      host_->scatter_v(rank() == op.root ? segment(s) : Tensor(), part(s), rail_parts(segments[s].size),
                       hosts_.index_of[op.root]);
    if (part(s).numel() > 0) travelling[s % 2] = across_->broadcast_async(part(s), root_host, network_);
  };
  const auto end = [&](std::int64_t s) {
    travelling[s % 2].synchronize();
    travelling[s % 2] = Work();
    host_->all_gather_v(part(s), segment(s), rail_parts(segments[s].size));
  };
  for (std::int64_t s = 0; s < segments.segments; ++s) {
    begin(s);
    if (s > 0) end(s - 1);
  }
  end(segments.segments - 1);
}

// The reverse of reduce_scatter: a rail collects what its ranks on all hosts have, hosts put the rails together.
void ComposedCommunicator::all_gather(const Operation& op) {
  const int me = host_->rank(), here = hosts_.host_of[rank()];
  const std::int64_t width = size_of(op.dtype);
  const std::vector<int> order = hosts_.by_rail();
  std::int64_t total = 0;
  for (int q = 0; q < size(); ++q) total += op.part_count(q);
  const auto segments = Segments::of(total, 2 * rail_bytes / width * hosts_.rails).segments;
  const auto slice = [&](int q, std::int64_t s) {
    return part_of(op.part_count(q), static_cast<int>(segments), static_cast<int>(s));
  };
  std::int64_t most = 0;
  for (std::int64_t s = 0; s < segments; ++s) {
    std::int64_t sum = 0;
    for (int q = 0; q < size(); ++q) sum += slice(q, s).size;
    most = std::max(most, sum);
  }
  const std::int64_t region = aligned(most * width);
  const Tensor memory = room(3 * region);  // this host's of this rail; all of this rail; all by rail
  // In place, this rank's part lies in `out`, where nobody writes before it has been read: parts of one segment are
  // read before any of that segment is written.
  for (std::int64_t s = 0; s < segments; ++s) {
    Counts rails(host_->size()), among(hosts_.count()), sent(host_->size()), received(host_->size());
    std::int64_t all = 0;
    for (int q : order) {
      const std::int64_t n = slice(q, s).size;
      all += n;
      rails[hosts_.rail_of(q)] += n;
      if (hosts_.rail_of(q) != me) continue;
      among[hosts_.host_of[q]] += n;
      if (hosts_.host_of[q] == here) received[hosts_.index_of[q]] = n;
    }
    const Part own = slice(rank(), s);
    Tensor collected = op.in.flat().slice(own.begin, own.begin + own.size);
    if (host_->size() > hosts_.rails) {
      sent[hosts_.rail_of(rank())] = own.size;
      std::int64_t n = 0;
      for (std::int64_t r : received) n += r;
      const Tensor to = typed(memory, 0, op.dtype, n);
      host_->all_to_all_v(collected, to, sent, received);
      collected = to;
    }
    const Tensor mine = typed(memory, region, op.dtype, rails[me]);
    if (across_ && rails[me] > 0) across_->all_gather_v(collected, mine, among);
    const Tensor packed = typed(memory, 2 * region, op.dtype, all);
    host_->all_gather_v(mine, packed, rails);
    std::int64_t from = 0;
    for (int q : order) {
      const Part p = slice(q, s);
      if (p.size > 0) std::memcpy(at(op.out, op.part_begin(q) + p.begin), at(packed, from), p.size * width);
      from += p.size;
    }
  }
}

}  // namespace shoal::comm::composed
