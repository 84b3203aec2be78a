#include "cli/bench_collectives.hpp"

#include <algorithm>
#include <cstring>

#include "cli/bench_values.hpp"

namespace shoal::cli::bench {
namespace {

// The buffer that has a part for each rank.
bool many_in(Collective c) {
  return c == Collective::reduce_scatter || c == Collective::scatter || c == Collective::all_to_all;
}
bool many_out(Collective c) {
  return c == Collective::all_gather || c == Collective::gather || c == Collective::all_to_all;
}

// Operations that only move data get values that differ between any two ranks and parts.
Reduction values_of(const Problem& p) { return p.reduces() ? p.op : ReduceOp::max; }

Tensor part(const Tensor& t, std::int64_t count, int i) { return t.slice(i * count, (i + 1) * count); }

Tensor within(const Problem& p, const Tensor& block, std::int64_t count) {
  return Tensor::from_blob(block.data(), {count}, p.dtype, block.device());
}

Pattern input(const Problem& p, int from, int index, int round) {
  return Pattern::input(p.dtype, values_of(p), p.ranks, from, index, round);
}

}  // namespace

std::optional<Collective> find_collective(std::string_view name) {
  const auto* at = std::find(std::begin(collective_names), std::end(collective_names), name);
  if (at == std::end(collective_names)) return std::nullopt;
  return static_cast<Collective>(at - std::begin(collective_names));
}

bool Problem::reduces() const {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
         collective == Collective::reduce;
}
bool Problem::rooted() const {
  return collective == Collective::broadcast || collective == Collective::reduce ||
         collective == Collective::gather || collective == Collective::scatter;
}
std::int64_t Problem::in_count() const { return many_in(collective) ? ranks * count : count; }
std::int64_t Problem::out_count() const { return many_out(collective) ? ranks * count : count; }
std::int64_t Problem::nbytes() const { return std::max(in_count(), out_count()) * size_of(dtype); }
bool Problem::has(bool in_place) const {
  if (collective == Collective::broadcast) return in_place;
  if (collective == Collective::sendrecv) return !in_place;
  return true;
}
double Problem::algorithm_bytes() const {
  const bool parts = many_in(collective) || many_out(collective);
  return static_cast<double>((parts ? ranks * count : count) * size_of(dtype));
}
double Problem::bus_factor() const {
  const double n = ranks;
  if (collective == Collective::all_reduce) return 2 * (n - 1) / n;
  return many_in(collective) || many_out(collective) ? (n - 1) / n : 1;
}
std::int64_t Problem::count_of(Collective c, std::int64_t nbytes, DType dtype, int ranks) {
  const std::int64_t elements = nbytes / size_of(dtype);
  return many_in(c) || many_out(c) ? elements / ranks : elements;
}

Buffers place(const Problem& p, const Tensor& first, const Tensor& second, bool in_place) {
  if (!in_place) return {within(p, first, p.in_count()), within(p, second, p.out_count())};
  const Tensor whole = within(p, first, std::max(p.in_count(), p.out_count()));
  if (many_in(p.collective) != many_out(p.collective)) {
    const Tensor own = part(whole, p.count, p.rank);
    return many_in(p.collective) ? Buffers{whole, own} : Buffers{own, whole};
  }
  return {whole, whole};
}

void run(Communicator& comm, const Problem& p, const Buffers& b) {
  switch (p.collective) {
    case Collective::all_reduce: return comm.all_reduce(b.in, b.out, p.op);
    case Collective::reduce_scatter: return comm.reduce_scatter(b.in, b.out, p.op);
    case Collective::all_gather: return comm.all_gather(b.in, b.out);
    case Collective::broadcast: return comm.broadcast(b.out, p.root);
    case Collective::reduce: return comm.reduce(b.in, b.out, p.root, p.op);
    case Collective::all_to_all: return comm.all_to_all(b.in, b.out);
    case Collective::gather: return comm.gather(b.in, b.out, p.root);
    case Collective::scatter: return comm.scatter(b.in, b.out, p.root);
    case Collective::sendrecv:  // round a ring
      comm.group_start();
      comm.send(b.in, (p.rank + 1) % p.ranks);
      comm.recv(b.out, (p.rank + p.ranks - 1) % p.ranks);
      comm.group_end();
  }
}

std::string algorithm(const Communicator& comm, const Problem& p, bool direct) {
  return comm.describe_algorithm(p.collective == Collective::sendrecv ? "send" : name(p.collective),
                                 p.nbytes(), direct);
}

void prepare(const Problem& p, const Buffers& b, int round) {
  if (b.out.nbytes() > 0) std::memset(b.out.data(), 0xa5, static_cast<std::size_t>(b.out.nbytes()));
  const bool from_root = p.collective == Collective::broadcast || p.collective == Collective::scatter;
  if (from_root && p.rank != p.root) return;
  const int parts = many_in(p.collective) ? p.ranks : 1;
  for (int i = 0; i < parts; ++i) input(p, p.rank, i, round).fill(part(b.in, p.count, i));
}

std::int64_t count_wrong(const Problem& p, const Buffers& b, int round) {
  const auto reduced = [&](int index) {
    return Pattern::reduced(p.dtype, p.op, p.ranks, index, round).count_wrong(b.out);
  };
  std::int64_t wrong = 0;
  switch (p.collective) {
    case Collective::all_reduce: return reduced(0);
    case Collective::reduce_scatter: return reduced(p.rank);
    case Collective::reduce: return p.rank == p.root ? reduced(0) : 0;
    case Collective::broadcast: return input(p, p.root, 0, round).count_wrong(b.out);
    case Collective::sendrecv: return input(p, (p.rank + p.ranks - 1) % p.ranks, 0, round).count_wrong(b.out);
    case Collective::scatter: return input(p, p.root, p.rank, round).count_wrong(b.out);
    case Collective::gather:
      if (p.rank != p.root) return 0;
      [[fallthrough]];
    case Collective::all_gather:
    case Collective::all_to_all:
      for (int from = 0; from < p.ranks; ++from)
        wrong += input(p, from, p.collective == Collective::all_to_all ? p.rank : 0, round)
                     .count_wrong(part(b.out, p.count, from));
  }
  return wrong;
}

}  // namespace shoal::cli::bench
