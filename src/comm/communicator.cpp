// The public methods: each hands its checked arguments on as data, to be waited for or not.
#include "shoal/comm/communicator.hpp"

#include <fmt/format.h>

#include "comm/request.hpp"
#include "shoal/core/error.hpp"

namespace shoal {

using namespace comm;  // NOLINT: one file, which joins the two

void Communicator::run(Request request) { submit(std::move(request)); }

Work Communicator::run(Request request, const Stream& stream) {
  if (stream.empty())
    throw DeviceError(fmt::format("{}: an empty stream was given", comm::name(request.kind)));
  request.blocking = false;
  request.stream = stream;
  return submit(std::move(request));
}

// -- blocking ------------------------------------------------------------------------------------
void Communicator::all_reduce(const Tensor& t, Reduction op) { all_reduce(t, t, op); }
void Communicator::all_reduce(const Tensor& in, const Tensor& out, Reduction op) {
  run({all_reduce_of(*this, in, out, op)});
}
void Communicator::reduce_scatter(const Tensor& in, const Tensor& out, Reduction op) {
  run({reduce_scatter_of(*this, in, out, nullptr, op)});
}
void Communicator::reduce_scatter_v(const Tensor& in, const Tensor& out, const Counts& counts, Reduction op) {
  run({reduce_scatter_of(*this, in, out, &counts, op)});
}
void Communicator::all_gather(const Tensor& in, const Tensor& out) {
  run({all_gather_of(*this, in, out, nullptr)});
}
void Communicator::all_gather_v(const Tensor& in, const Tensor& out, const Counts& counts) {
  run({all_gather_of(*this, in, out, &counts)});
}
void Communicator::broadcast(const Tensor& t, int root) { run({broadcast_of(*this, t, root)}); }
void Communicator::reduce(const Tensor& in, const Tensor& out, int root, Reduction op) {
  run({reduce_of(*this, in, out, root, op)});
}
void Communicator::gather(const Tensor& in, const Tensor& out, int root) {
  run({gather_of(*this, in, out, nullptr, root)});
}
void Communicator::gather_v(const Tensor& in, const Tensor& out, const Counts& counts, int root) {
  run({gather_of(*this, in, out, &counts, root)});
}
void Communicator::scatter(const Tensor& in, const Tensor& out, int root) {
  run({scatter_of(*this, in, out, nullptr, root)});
}
void Communicator::scatter_v(const Tensor& in, const Tensor& out, const Counts& counts, int root) {
  run({scatter_of(*this, in, out, &counts, root)});
}
void Communicator::all_to_all(const Tensor& in, const Tensor& out) { run({all_to_all_of(*this, in, out)}); }
void Communicator::all_to_all_v(const Tensor& in, const Tensor& out, const Counts& send_counts,
                                const Counts& recv_counts) {
  run({all_to_all_v_of(*this, in, out, send_counts, recv_counts)});
}
void Communicator::send(const Tensor& t, int peer) { run({message_of(*this, Kind::send, t, peer)}); }
void Communicator::recv(const Tensor& t, int peer) { run({message_of(*this, Kind::recv, t, peer)}); }
void Communicator::barrier() { run(Request()); }
void Communicator::reduce_tree(const std::vector<Tensor>& nodes, std::int64_t leaves, std::int64_t first,
                               std::int64_t last, const Tensor& out) {
  run({tree_of(*this, Kind::reduce_tree, nodes, leaves, first, last, out)});
}
void Communicator::reduce_scatter_tree(const std::vector<Tensor>& nodes, std::int64_t leaves,
                                       std::int64_t first, std::int64_t last, const Tensor& out) {
  run({tree_of(*this, Kind::reduce_scatter_tree, nodes, leaves, first, last, out)});
}

// -- asynchronous --------------------------------------------------------------------------------
Work Communicator::all_reduce_async(const Tensor& in, const Tensor& out, Reduction op, const Stream& stream) {
  return run({all_reduce_of(*this, in, out, op)}, stream);
}
Work Communicator::reduce_scatter_async(const Tensor& in, const Tensor& out, Reduction op,
                                        const Stream& stream) {
  return run({reduce_scatter_of(*this, in, out, nullptr, op)}, stream);
}
Work Communicator::reduce_scatter_v_async(const Tensor& in, const Tensor& out, const Counts& counts,
                                          Reduction op, const Stream& stream) {
  return run({reduce_scatter_of(*this, in, out, &counts, op)}, stream);
}
Work Communicator::all_gather_async(const Tensor& in, const Tensor& out, const Stream& stream) {
  return run({all_gather_of(*this, in, out, nullptr)}, stream);
}
Work Communicator::all_gather_v_async(const Tensor& in, const Tensor& out, const Counts& counts,
                                      const Stream& stream) {
  return run({all_gather_of(*this, in, out, &counts)}, stream);
}
Work Communicator::broadcast_async(const Tensor& t, int root, const Stream& stream) {
  return run({broadcast_of(*this, t, root)}, stream);
}
Work Communicator::reduce_async(const Tensor& in, const Tensor& out, int root, Reduction op,
                                const Stream& stream) {
  return run({reduce_of(*this, in, out, root, op)}, stream);
}
Work Communicator::gather_async(const Tensor& in, const Tensor& out, int root, const Stream& stream) {
  return run({gather_of(*this, in, out, nullptr, root)}, stream);
}
Work Communicator::gather_v_async(const Tensor& in, const Tensor& out, const Counts& counts, int root,
                                  const Stream& stream) {
  return run({gather_of(*this, in, out, &counts, root)}, stream);
}
Work Communicator::scatter_async(const Tensor& in, const Tensor& out, int root, const Stream& stream) {
  return run({scatter_of(*this, in, out, nullptr, root)}, stream);
}
Work Communicator::scatter_v_async(const Tensor& in, const Tensor& out, const Counts& counts, int root,
                                   const Stream& stream) {
  return run({scatter_of(*this, in, out, &counts, root)}, stream);
}
Work Communicator::all_to_all_async(const Tensor& in, const Tensor& out, const Stream& stream) {
  return run({all_to_all_of(*this, in, out)}, stream);
}
Work Communicator::all_to_all_v_async(const Tensor& in, const Tensor& out, const Counts& send_counts,
                                      const Counts& recv_counts, const Stream& stream) {
  return run({all_to_all_v_of(*this, in, out, send_counts, recv_counts)}, stream);
}
Work Communicator::send_async(const Tensor& t, int peer, const Stream& stream) {
  return run({message_of(*this, Kind::send, t, peer)}, stream);
}
Work Communicator::recv_async(const Tensor& t, int peer, const Stream& stream) {
  return run({message_of(*this, Kind::recv, t, peer)}, stream);
}
Work Communicator::barrier_async(const Stream& stream) { return run(Request(), stream); }
Work Communicator::reduce_tree_async(const std::vector<Tensor>& nodes, std::int64_t leaves,
                                     std::int64_t first, std::int64_t last, const Tensor& out,
                                     const Stream& stream) {
  return run({tree_of(*this, Kind::reduce_tree, nodes, leaves, first, last, out)}, stream);
}
Work Communicator::reduce_scatter_tree_async(const std::vector<Tensor>& nodes, std::int64_t leaves,
                                             std::int64_t first, std::int64_t last, const Tensor& out,
                                             const Stream& stream) {
  return run({tree_of(*this, Kind::reduce_scatter_tree, nodes, leaves, first, last, out)}, stream);
}

}  // namespace shoal
