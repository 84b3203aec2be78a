// Sums. A segment is summed on each host, its parts then among hosts, and while they travel the hosts sum the next.
#include <cstring>

#include "comm/backends/composed/communicator.hpp"
#include "comm/backends/composed/layout.hpp"
#include "shoal/ops/cast.hpp"
#include "shoal/ops/reduce.hpp"
#include "shoal/shard/tree.hpp"

namespace shoal::comm::composed {
namespace {

// On a host: inputs may be scaled; an average is a sum until the end.
Reduction first_stage(const Reduction& r) {
  Reduction first = r;
  if (first.op == ReduceOp::average) first.op = ReduceOp::sum;
  return first;
}
// Among hosts: what is there is scaled already.
ReduceOp second_stage(const Reduction& r) { return r.op == ReduceOp::average ? ReduceOp::sum : r.op; }

// `to` = `from` (of sum_type) for good: divided where it is an average of `ranks`, and rounded.
void finish_sum(const Operation& op, int ranks, const Tensor& from, const Tensor& to) {
  const void* source = from.data();
  if (op.reduce.op == ReduceOp::average)
    ops::combine(ops::Combine::sum, from.dtype(), &source, 1, from.data(), from.numel(), ranks);
  if (to.data() != from.data()) ops::cast(from.dtype(), from.data(), to.dtype(), to.data(), from.numel());
}

}  // namespace

void ComposedCommunicator::reduce(const Operation& op) { all_reduce(op); }

// Also reduce: there the parts are summed on the root's host alone, and gathered by the root alone.
void ComposedCommunicator::all_reduce(const Operation& op) {
  const bool rooted = op.kind == Kind::reduce;
  const DType wide = sum_type(op.dtype);
  const std::int64_t width = size_of(wide);
  const int me = host_->rank();
  const Segments segments = Segments::of(op.count, rail_bytes / width * hosts_.rails);
  // The room: a segment in the sum's type where that is not the data's, then the parts of two segments.
  const std::int64_t whole_bytes = wide == op.dtype ? 0 : aligned(segments.most() * width);
  const std::int64_t part_bytes = aligned(rail_parts(segments.most())[0] * width);
  const Tensor memory = room(whole_bytes + 2 * part_bytes);
  const auto part = [&](std::int64_t s) {
    return typed(memory, whole_bytes + s % 2 * part_bytes, wide, rail_parts(segments[s].size)[me]);
  };
  Work travelling[2];
  const auto begin = [&](std::int64_t s) {
    const Part at = segments[s];
    Tensor in = op.in.flat().slice(at.begin, at.begin + at.size);
    if (wide != op.dtype) {
      const Tensor whole = typed(memory, 0, wide, at.size);
      ops::cast(op.dtype, in.data(), wide, whole.data(), at.size);
      in = whole;
    }
    const Tensor mine = part(s);
    host_->reduce_scatter_v(in, mine, rail_parts(at.size), first_stage(op.reduce));
    if (mine.numel() == 0) return;
    travelling[s % 2] =
        rooted ? across_->reduce_async(mine, mine, hosts_.host_of[op.root], second_stage(op.reduce), network_)
               : across_->all_reduce_async(mine, mine, second_stage(op.reduce), network_);
  };
  const auto end = [&](std::int64_t s) {
    const Part at = segments[s];
    travelling[s % 2].synchronize();
    travelling[s % 2] = Work();
    if (rooted && hosts_.host_of[op.root] != hosts_.host_of[rank()]) return;
    Tensor mine = part(s);
    // The segment in the sum's type has been summed: its room takes the rounded part.
    const Tensor sum = wide == op.dtype ? mine : typed(memory, 0, op.dtype, mine.numel());
    finish_sum(op, size(), mine, sum);
    if (!rooted)
      host_->all_gather_v(sum, op.out.flat().slice(at.begin, at.begin + at.size), rail_parts(at.size));
    else
      host_->gather_v(sum, rank() == op.root ? op.out.flat().slice(at.begin, at.begin + at.size) : Tensor(),
                      rail_parts(at.size), hosts_.index_of[op.root]);
  };
  for (std::int64_t s = 0; s < segments.segments; ++s) {
    begin(s);
    if (s > 0) end(s - 1);
  }
  end(segments.segments - 1);
}

// Parts are brought into the order of rails, so that each rail sums what is for its ranks on all hosts.
void ComposedCommunicator::reduce_scatter(const Operation& op) {
  const DType wide = sum_type(op.dtype);
  const std::int64_t width = size_of(wide);
  const int me = host_->rank(), here = hosts_.host_of[rank()];
  const std::vector<int> order = hosts_.by_rail();
  std::int64_t total = 0;
  for (int q = 0; q < size(); ++q) total += op.part_count(q);
  const auto segments = Segments::of(total, 2 * rail_bytes / width * hosts_.rails).segments;
  const auto slice = [&](int q,
                         std::int64_t s) {  // what segment s holds of rank q's part, in elements of the part
    return part_of(op.part_count(q), static_cast<int>(segments), static_cast<int>(s));
  };
  std::int64_t most = 0;
  for (std::int64_t s = 0; s < segments; ++s) {
    std::int64_t sum = 0;
    for (int q = 0; q < size(); ++q) sum += slice(q, s).size;
    most = std::max(most, sum);
  }
  const std::int64_t region = aligned(most * width);
  const Tensor memory = room(3 * region);  // all parts by rail; this rail's; this host's of them
  for (std::int64_t s = 0; s < segments; ++s) {
    Counts rails(host_->size()), among(hosts_.count()), sent(host_->size()), received(host_->size());
    std::int64_t at = 0, mine_count = 0, here_count = 0;
    const Tensor packed = typed(memory, 0, wide, most);
    for (int q : order) {
      const Part p = slice(q, s);
      ops::cast(
          op.dtype,
          static_cast<const std::byte*>(op.in.data()) + (op.part_begin(q) + p.begin) * size_of(op.dtype),
          wide, static_cast<std::byte*>(packed.data()) + at * width, p.size);
      at += p.size;
      rails[hosts_.rail_of(q)] += p.size;
      if (hosts_.rail_of(q) != me) continue;
      mine_count += p.size;
      among[hosts_.host_of[q]] += p.size;
      if (hosts_.host_of[q] == here) {
        here_count += p.size;
        sent[hosts_.index_of[q]] = p.size;
      }
    }
    const Part own = slice(rank(), s);
    received[hosts_.rail_of(rank())] = own.size;
    const Tensor mine = typed(memory, region, wide, mine_count);
    host_->reduce_scatter_v(packed.slice(0, at), mine, rails, first_stage(op.reduce));
    const Tensor summed = typed(memory, 2 * region, wide, here_count);
    if (across_ && mine_count > 0) across_->reduce_scatter_v(mine, summed, among, second_stage(op.reduce));
    Tensor result = summed;
    if (host_->size() > hosts_.rails) {
      result = typed(memory, region, wide, own.size);
      host_->all_to_all_v(summed, result, sent, received);
    }
    finish_sum(op, size(), result, op.out.flat().slice(own.begin, own.begin + own.size));
  }
}

// The tree's lower levels on each host and its upper ones among hosts, where every host holds one node of it. False
// where that is not so: the same bits then come from the network's own tree.
bool ComposedCommunicator::tree(const Operation& op, const std::vector<Header>& headers) {
  if (op.nothing()) return true;
  if (!hosts_.even() || !hosts_.contiguous() || sum_type(op.dtype) != op.dtype) return false;
  if (op.count % size() != 0) return false;
  for (const auto& ranks : hosts_.ranks)
    if (shard::tree_nodes(op.leaves, headers[ranks.front()].first, headers[ranks.back()].last).size() != 1)
      return false;
  const auto& here = hosts_.ranks[hosts_.host_of[rank()]];
  const std::int64_t first = headers[here.front()].first, last = headers[here.back()].last;
  const std::int64_t part = op.count / host_->size(), each = op.count / size();
  const Tensor memory = room(aligned(part * size_of(op.dtype)));
  const Tensor mine = typed(memory, 0, op.dtype, part);
  const auto on_host = [&](std::int64_t begin, std::int64_t end, const Tensor& out) {
    std::vector<Tensor> nodes;
    for (const Tensor& node : op.nodes) nodes.push_back(node.flat().slice(begin, end));
    host_->reduce_scatter_tree(nodes, last - first, op.first - first, op.last - first, out);
  };
  if (op.kind == Kind::reduce_tree) {
    on_host(0, op.count, mine);
    across_->reduce_tree({mine}, op.leaves, first, last, mine);
    host_->all_gather(mine, op.out.flat());
    return true;
  }
  // This rail's ranks lie apart in the buffer: host by host.
  for (int h = 0; h < hosts_.count(); ++h)
    on_host(h * each * host_->size(), (h + 1) * each * host_->size(), mine.slice(h * each, (h + 1) * each));
  across_->reduce_scatter_tree({mine}, op.leaves, first, last, op.out);
  return true;
}

void ComposedCommunicator::run_flat(const Operation& op) {
  switch (op.kind) {
    case Kind::gather:
      return op.v() ? flat_->gather_v(op.in, op.out, op.counts, op.root)
                    : flat_->gather(op.in, op.out, op.root);
    case Kind::scatter:
      return op.v() ? flat_->scatter_v(op.in, op.out, op.counts, op.root)
                    : flat_->scatter(op.in, op.out, op.root);
    case Kind::all_to_all:
      return op.v() ? flat_->all_to_all_v(op.in, op.out, op.counts, op.recv_counts)
                    : flat_->all_to_all(op.in, op.out);
    case Kind::reduce_tree: return flat_->reduce_tree(op.nodes, op.leaves, op.first, op.last, op.out);
    case Kind::reduce_scatter_tree:
      return flat_->reduce_scatter_tree(op.nodes, op.leaves, op.first, op.last, op.out);
    default: return;
  }
}

}  // namespace shoal::comm::composed
