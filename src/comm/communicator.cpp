// The public methods: they check shapes, dtypes and roots, and hand the operation on as data.
#include "shoal/comm/communicator.hpp"

#include <fmt/format.h>

#include "comm/host_communicator.hpp"
#include "shoal/core/error.hpp"

namespace shoal {
namespace comm {

const char* name(Kind kind) {
  static constexpr const char* names[] = {
      "all_reduce", "reduce_scatter", "all_gather",  "broadcast",           "reduce", "all_to_all", "barrier",
      "send",       "recv",           "reduce_tree", "reduce_scatter_tree", "split"};
  return names[static_cast<int>(kind)];
}

std::string describe(const Operation& op) {
  if (op.kind == Kind::barrier || op.kind == Kind::split) return name(op.kind);
  std::string text = fmt::format("{} of {} {}", name(op.kind), op.count, shoal::name(op.dtype));
  if (op.reduces()) text += fmt::format(" ({})", shoal::name(op.reduce));
  if (op.kind == Kind::broadcast || op.kind == Kind::recv) text += fmt::format(" from rank {}", op.root);
  if (op.kind == Kind::reduce || op.kind == Kind::send) text += fmt::format(" to rank {}", op.root);
  if (op.leaves > 0) text += fmt::format(" over {} leaves", op.leaves);
  return text;
}

}  // namespace comm

namespace {

using comm::Kind;

void require_tensor(const Communicator& c, Kind kind, const char* what, const Tensor& t, DType dtype,
                    std::int64_t numel) {
  if (!t.defined() || t.dtype() != dtype || t.numel() != numel)
    throw ShapeError(fmt::format("{} on communicator {}: {}: expected {} elements of {}, got {}", name(kind),
                                 c.name(), what, numel, name(dtype),
                                 t.defined() ? t.str() : "an undefined tensor"));
  t.require_dense();
}

void require_defined(const Communicator& c, Kind kind, const char* what, const Tensor& t) {
  if (!t.defined())
    throw ShapeError(
        fmt::format("{} on communicator {}: {} is an undefined tensor", name(kind), c.name(), what));
  t.require_dense();
}

void require_rank(const Communicator& c, Kind kind, const char* what, int rank) {
  if (rank < 0 || rank >= c.size())
    throw ConfigError(
        fmt::format("{} on communicator {}: {} {} of {} ranks", name(kind), c.name(), what, rank, c.size()));
}

void require_arithmetic(const Communicator& c, Kind kind, DType dtype) {
  if (dtype == DType::u16 || dtype == DType::u32)
    throw ShapeError(
        fmt::format("{} on communicator {}: no arithmetic on {}", name(kind), c.name(), name(dtype)));
}

template <class Request>
Request request(Kind kind, DType dtype, std::int64_t count, const Tensor& in, const Tensor& out) {
  Request r;
  r.kind = kind;
  r.dtype = dtype;
  r.count = count;
  r.in = in;
  r.out = out;
  return r;
}

template <class Request>
Request reduction(const Communicator& c, Kind kind, const Tensor& in, const Tensor& out, ReduceOp op) {
  const bool scatter = kind == Kind::reduce_scatter;
  require_defined(c, kind, scatter ? "out" : "in", scatter ? out : in);
  const DType dtype = scatter ? out.dtype() : in.dtype();
  require_arithmetic(c, kind, dtype);
  if (scatter)
    require_tensor(c, kind, "in", in, dtype, out.numel() * c.size());
  else
    require_tensor(c, kind, "out", out, dtype, in.numel());
  if (!scatter && in.data() != out.data() && comm::overlap(in.data(), in.nbytes(), out.data(), out.nbytes()))
    throw ShapeError(fmt::format("{} on communicator {}: in and out overlap without being the same",
                                 name(kind), c.name()));
  Request r = request<Request>(kind, dtype, scatter ? out.numel() : in.numel(), in, out);
  r.reduce = op;
  return r;
}

template <class Request>
Request gather(const Communicator& c, const Tensor& in, const Tensor& out) {
  require_defined(c, Kind::all_gather, "in", in);
  require_tensor(c, Kind::all_gather, "out", out, in.dtype(), in.numel() * c.size());
  return request<Request>(Kind::all_gather, in.dtype(), in.numel(), in, out);
}

template <class Request>
Request rooted(const Communicator& c, Kind kind, const char* what, const Tensor& in, const Tensor& out,
               int root) {
  require_rank(c, kind, what, root);
  const Tensor& t = in.defined() ? in : out;
  require_defined(c, kind, "the tensor", t);
  Request r = request<Request>(kind, t.dtype(), t.numel(), in, out);
  r.root = root;
  return r;
}

template <class Request>
Request tree(const Communicator& c, Kind kind, const std::vector<Tensor>& nodes, std::int64_t leaves,
             std::int64_t first, std::int64_t last, const Tensor& out) {
  require_defined(c, kind, "out", out);
  if (out.dtype() != DType::f32 && out.dtype() != DType::f64)
    throw ShapeError(fmt::format("{} on communicator {}: ordered sums are of f32 or f64, got {}", name(kind),
                                 c.name(), out.str()));
  const std::size_t expected = shard::tree_nodes(leaves, first, last).size();
  if (leaves < 1 || nodes.size() != expected)
    throw ShapeError(fmt::format("{} on communicator {}: leaves [{}, {}) of {} make {} nodes, got {}",
                                 name(kind), c.name(), first, last, leaves, expected, nodes.size()));
  const std::int64_t count = kind == Kind::reduce_tree ? out.numel() : out.numel() * c.size();
  for (const Tensor& n : nodes) require_tensor(c, kind, "a node", n, out.dtype(), count);
  Request r = request<Request>(kind, out.dtype(), count, Tensor(), out);
  r.nodes = nodes;
  r.leaves = leaves;
  r.first = first;
  r.last = last;
  return r;
}

template <class Request>
Request on(Request r, const Stream& stream) {
  if (stream.empty()) throw DeviceError(fmt::format("{}: an empty stream was given", name(r.kind)));
  r.blocking = false;
  r.stream = stream;
  return r;
}

}  // namespace

void Communicator::all_reduce(const Tensor& t, ReduceOp op) { all_reduce(t, t, op); }
void Communicator::all_reduce(const Tensor& in, const Tensor& out, ReduceOp op) {
  submit(reduction<Request>(*this, Kind::all_reduce, in, out, op));
}
void Communicator::reduce_scatter(const Tensor& in, const Tensor& out, ReduceOp op) {
  submit(reduction<Request>(*this, Kind::reduce_scatter, in, out, op));
}
void Communicator::all_gather(const Tensor& in, const Tensor& out) {
  submit(gather<Request>(*this, in, out));
}
void Communicator::broadcast(const Tensor& t, int root) {
  submit(rooted<Request>(*this, Kind::broadcast, "root", t, t, root));
}

// `out` counts on the root only.
void Communicator::reduce(const Tensor& in, const Tensor& out, int root, ReduceOp op) {
  require_rank(*this, Kind::reduce, "root", root);
  Request r = reduction<Request>(*this, Kind::reduce, in, rank() == root ? out : in, op);
  r.root = root;
  submit(std::move(r));
}

void Communicator::all_to_all(const Tensor& in, const Tensor& out) {
  require_defined(*this, Kind::all_to_all, "in", in);
  if (in.numel() % size() != 0)
    throw ShapeError(fmt::format("all_to_all on communicator {}: {} elements do not divide by {} ranks",
                                 name(), in.numel(), size()));
  require_tensor(*this, Kind::all_to_all, "out", out, in.dtype(), in.numel());
  submit(request<Request>(Kind::all_to_all, in.dtype(), in.numel() / size(), in, out));
}

void Communicator::send(const Tensor& t, int peer) {
  submit(rooted<Request>(*this, Kind::send, "peer", t, Tensor(), peer));
}
void Communicator::recv(const Tensor& t, int peer) {
  submit(rooted<Request>(*this, Kind::recv, "peer", Tensor(), t, peer));
}
void Communicator::barrier() { submit(Request()); }

void Communicator::reduce_tree(const std::vector<Tensor>& nodes, std::int64_t leaves, std::int64_t first,
                               std::int64_t last, const Tensor& out) {
  submit(tree<Request>(*this, Kind::reduce_tree, nodes, leaves, first, last, out));
}
void Communicator::reduce_scatter_tree(const std::vector<Tensor>& nodes, std::int64_t leaves,
                                       std::int64_t first, std::int64_t last, const Tensor& out) {
  submit(tree<Request>(*this, Kind::reduce_scatter_tree, nodes, leaves, first, last, out));
}

Work Communicator::all_reduce_async(const Tensor& in, const Tensor& out, ReduceOp op, const Stream& stream) {
  return submit(on(reduction<Request>(*this, Kind::all_reduce, in, out, op), stream));
}
Work Communicator::reduce_scatter_async(const Tensor& in, const Tensor& out, ReduceOp op,
                                        const Stream& stream) {
  return submit(on(reduction<Request>(*this, Kind::reduce_scatter, in, out, op), stream));
}
Work Communicator::all_gather_async(const Tensor& in, const Tensor& out, const Stream& stream) {
  return submit(on(gather<Request>(*this, in, out), stream));
}
Work Communicator::broadcast_async(const Tensor& t, int root, const Stream& stream) {
  return submit(on(rooted<Request>(*this, Kind::broadcast, "root", t, t, root), stream));
}
Work Communicator::reduce_tree_async(const std::vector<Tensor>& nodes, std::int64_t leaves,
                                     std::int64_t first, std::int64_t last, const Tensor& out,
                                     const Stream& stream) {
  return submit(on(tree<Request>(*this, Kind::reduce_tree, nodes, leaves, first, last, out), stream));
}
Work Communicator::reduce_scatter_tree_async(const std::vector<Tensor>& nodes, std::int64_t leaves,
                                             std::int64_t first, std::int64_t last, const Tensor& out,
                                             const Stream& stream) {
  return submit(on(tree<Request>(*this, Kind::reduce_scatter_tree, nodes, leaves, first, last, out), stream));
}

}  // namespace shoal
