// Arguments of the public methods, checked and made into data. Messages name every value that does not fit.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/host_communicator.hpp"
#include "comm/request.hpp"
#include "shoal/core/error.hpp"

namespace shoal::comm {
namespace {

std::string text_of(const Tensor& t) { return t.defined() ? t.str() : "an undefined tensor"; }

// What messages begin with.
std::string where(const Communicator& c, const Operation& op) {
  return fmt::format("{}{} on communicator {}", name(op.kind), op.v() ? "_v" : "", c.name());
}

Operation begin(Kind kind, const Counts* counts = nullptr) {
  Operation op;
  op.kind = kind;
  if (counts) op.counts = *counts;
  return op;
}

void require_tensor(const Communicator& c, const Operation& op, const char* what, const Tensor& t,
                    std::int64_t numel) {
  if (!t.defined() || t.dtype() != op.dtype || t.numel() != numel)
    throw ShapeError(fmt::format("{}: {}: expected {} elements of {}, got {}", where(c, op), what, numel,
                                 shoal::name(op.dtype), text_of(t)));
  t.require_dense();
}

// The tensor that says which dtype the operation has.
void set_dtype(const Communicator& c, Operation& op, const char* what, const Tensor& t) {
  if (!t.defined()) throw ShapeError(fmt::format("{}: {} is an undefined tensor", where(c, op), what));
  t.require_dense();
  op.dtype = t.dtype();
}

void set_rank(const Communicator& c, Operation& op, const char* what, int rank) {
  if (rank < 0 || rank >= c.size())
    throw ConfigError(fmt::format("{}: {} {} of {} ranks", where(c, op), what, rank, c.size()));
  op.root = rank;
}

bool floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 || dtype == DType::bf16;
}

void set_reduction(const Communicator& c, Operation& op, Reduction how) {
  if (op.dtype == DType::u16 || op.dtype == DType::u32)
    throw ShapeError(fmt::format("{}: no arithmetic on {}: f32, f64, f16, bf16, i32, i64 and u8 have it",
                                 where(c, op), shoal::name(op.dtype)));
  if (how.op == ReduceOp::average && !floating(op.dtype))
    throw ConfigError(
        fmt::format("{}: no average of {}: its quotients are not whole; averages are of f32, f64, "
                    "f16 and bf16 (sum, and divide as you mean it)",
                    where(c, op), shoal::name(op.dtype)));
  if (how.scaled && how.op != ReduceOp::sum)
    throw ConfigError(fmt::format("{}: a scale of {:g} for {}: only sums are pre-scaled", where(c, op),
                                  how.scale, shoal::name(how.op)));
  if (how.scaled && !floating(op.dtype))
    throw ConfigError(fmt::format("{}: a scale of {:g} for {}: pre-scaled sums are of f32, f64, f16 and bf16",
                                  where(c, op), how.scale, shoal::name(op.dtype)));
  op.reduce = how;
}

// The running sums of one list of counts; throws unless it is one count of at least 0 for each rank.
std::vector<std::int64_t> running(const Communicator& c, const Operation& op, const char* what,
                                  const Counts& counts) {
  if (static_cast<int>(counts.size()) != c.size())
    throw ConfigError(fmt::format("{}_v on communicator {}: {} {}: {} of them for {} ranks", name(op.kind),
                                  c.name(), what, counts, counts.size(), c.size()));
  std::vector<std::int64_t> sums{0};
  for (std::int64_t n : counts) {
    std::int64_t next = 0;
    if (n < 0 || __builtin_add_overflow(sums.back(), n, &next))
      throw ConfigError(fmt::format("{}: {} {}: each must be at least 0, and their sum fit 63 bits",
                                    where(c, op), what, counts));
    sums.push_back(next);
  }
  return sums;
}

// The elements of this rank's part, of all parts, and what ranks compare, from the part or from the counts.
struct Sizes {
  std::int64_t part, all;
};
Sizes set_counts(const Communicator& c, Operation& op, const Counts* counts, std::int64_t part) {
  if (!counts) {
    op.count = part;
    return {part, part * c.size()};
  }
  op.offsets = running(c, op, "counts", *counts);
  op.count = op.offsets.back();
  return {(*counts)[c.rank()], op.count};
}

void refuse_overlap(const Communicator& c, const Operation& op) {
  if (op.in.data() != op.out.data() && overlap(op.in.data(), op.in.nbytes(), op.out.data(), op.out.nbytes()))
    throw ShapeError(fmt::format("{}: in ({}) and out ({}) overlap without being the same", where(c, op),
                                 op.in.str(), op.out.str()));
}

}  // namespace

Operation all_reduce_of(const Communicator& c, const Tensor& in, const Tensor& out, Reduction how) {
  Operation op = begin(Kind::all_reduce);
  set_dtype(c, op, "in", in);
  set_reduction(c, op, how);
  require_tensor(c, op, "out", out, in.numel());
  op.count = in.numel();
  op.in = in;
  op.out = out;
  refuse_overlap(c, op);
  return op;
}

Operation reduce_scatter_of(const Communicator& c, const Tensor& in, const Tensor& out, const Counts* counts,
                            Reduction how) {
  Operation op = begin(Kind::reduce_scatter, counts);
  set_dtype(c, op, "out", out);
  set_reduction(c, op, how);
  const Sizes sizes = set_counts(c, op, counts, out.numel());
  require_tensor(c, op, "out", out, sizes.part);
  require_tensor(c, op, "in", in, sizes.all);
  op.in = in;
  op.out = out;
  return op;
}

Operation all_gather_of(const Communicator& c, const Tensor& in, const Tensor& out, const Counts* counts) {
  Operation op = begin(Kind::all_gather, counts);
  set_dtype(c, op, "in", in);
  const Sizes sizes = set_counts(c, op, counts, in.numel());
  require_tensor(c, op, "in", in, sizes.part);
  require_tensor(c, op, "out", out, sizes.all);
  op.in = in;
  op.out = out;
  return op;
}

Operation broadcast_of(const Communicator& c, const Tensor& t, int root) {
  Operation op = begin(Kind::broadcast);
  set_rank(c, op, "root", root);
  set_dtype(c, op, "the tensor", t);
  op.count = t.numel();
  op.in = op.out = t;
  return op;
}

Operation reduce_of(const Communicator& c, const Tensor& in, const Tensor& out, int root, Reduction how) {
  Operation op = begin(Kind::reduce);
  set_rank(c, op, "root", root);
  set_dtype(c, op, "in", in);
  set_reduction(c, op, how);
  op.count = in.numel();
  op.in = in;
  op.out = c.rank() == root ? out : in;
  require_tensor(c, op, "out", op.out, in.numel());
  refuse_overlap(c, op);
  return op;
}

Operation gather_of(const Communicator& c, const Tensor& in, const Tensor& out, const Counts* counts,
                    int root) {
  Operation op = begin(Kind::gather, counts);
  set_rank(c, op, "root", root);
  set_dtype(c, op, "in", in);
  const Sizes sizes = set_counts(c, op, counts, in.numel());
  require_tensor(c, op, "in", in, sizes.part);
  if (c.rank() == root) require_tensor(c, op, "out", out, sizes.all);
  op.in = in;
  if (c.rank() == root) op.out = out;
  return op;
}

Operation scatter_of(const Communicator& c, const Tensor& in, const Tensor& out, const Counts* counts,
                     int root) {
  Operation op = begin(Kind::scatter, counts);
  set_rank(c, op, "root", root);
  set_dtype(c, op, "out", out);
  const Sizes sizes = set_counts(c, op, counts, out.numel());
  require_tensor(c, op, "out", out, sizes.part);
  if (c.rank() == root) require_tensor(c, op, "in", in, sizes.all);
  if (c.rank() == root) op.in = in;
  op.out = out;
  return op;
}

Operation all_to_all_of(const Communicator& c, const Tensor& in, const Tensor& out) {
  Operation op = begin(Kind::all_to_all);
  set_dtype(c, op, "in", in);
  if (in.numel() % c.size() != 0)
    throw ShapeError(
        fmt::format("{}: {} elements do not divide by {} ranks", where(c, op), in.numel(), c.size()));
  require_tensor(c, op, "out", out, in.numel());
  op.count = in.numel() / c.size();
  op.in = in;
  op.out = out;
  return op;
}

Operation all_to_all_v_of(const Communicator& c, const Tensor& in, const Tensor& out, const Counts& sent,
                          const Counts& received) {
  Operation op = begin(Kind::all_to_all, &sent);
  op.recv_counts = received;
  set_dtype(c, op, "in", in);
  op.offsets = running(c, op, "send counts", sent);
  op.recv_offsets = running(c, op, "receive counts", received);
  if (sent[c.rank()] != received[c.rank()])
    throw ConfigError(fmt::format("{}: rank {} sends itself {} elements and receives {} from itself",
                                  where(c, op), c.rank(), sent[c.rank()], received[c.rank()]));
  op.count = op.offsets.back();
  require_tensor(c, op, "in", in, op.count);
  require_tensor(c, op, "out", out, op.recv_offsets.back());
  op.in = in;
  op.out = out;
  return op;
}

Operation message_of(const Communicator& c, Kind kind, const Tensor& t, int peer) {
  Operation op = begin(kind);
  set_rank(c, op, "peer", peer);
  set_dtype(c, op, "the tensor", t);
  op.count = t.numel();
  (kind == Kind::send ? op.in : op.out) = t;
  return op;
}

Operation tree_of(const Communicator& c, Kind kind, const std::vector<Tensor>& nodes, std::int64_t leaves,
                  std::int64_t first, std::int64_t last, const Tensor& out) {
  Operation op = begin(kind);
  set_dtype(c, op, "out", out);
  if (!floating(op.dtype))
    throw ShapeError(
        fmt::format("{}: ordered sums are of f32, f64, f16 and bf16, got {}", where(c, op), out.str()));
  const std::size_t partial = shard::tree_nodes(leaves, first, last).size();
  const bool whole_leaves = size_of(op.dtype) == 2;
  const std::size_t expected = whole_leaves ? static_cast<std::size_t>(last - first) : partial;
  if (leaves < 1 || nodes.size() != expected)
    throw ShapeError(fmt::format("{}: leaves [{}, {}) of {} in {} make {} nodes{}, got {}", where(c, op),
                                 first, last, leaves, shoal::name(op.dtype), expected,
                                 whole_leaves ? " (16-bit leaves are given one by one)" : "", nodes.size()));
  op.count = kind == Kind::reduce_tree ? out.numel() : out.numel() * c.size();
  for (const Tensor& n : nodes) require_tensor(c, op, "a node", n, op.count);
  op.out = out;
  op.nodes = nodes;
  op.leaves = leaves;
  op.first = first;
  op.last = last;
  return op;
}

}  // namespace shoal::comm
