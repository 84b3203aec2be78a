// One operation as data: what the checked public methods hand to a backend.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/comm/communicator.hpp"

namespace shoal::comm {

enum class Kind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  gather,
  scatter,
  all_to_all,
  barrier,
  send,
  recv,
  reduce_tree,
  reduce_scatter_tree,
  split
};
constexpr int kinds = 14;
const char* name(Kind kind);
// The kind of "all_gather" or "all_gather_v"; throws ConfigError for any other text.
Kind kind_of(std::string_view operation);

struct Operation {
  Kind kind = Kind::barrier;
  DType dtype = DType::u8;
  Reduction reduce;
  int root = -1;  // or the peer
  // What ranks must agree on, in elements: the whole buffer for all_reduce, reduce, broadcast, send, recv and both
  // tree forms; one rank's part for reduce_scatter, all_gather, gather, scatter and all_to_all; all parts together for
  // their v forms, but for all_to_all_v, where ranks need not agree: there it is what this rank sends.
  std::int64_t count = 0;
  // `in` and `out` are undefined where a rank has none to give (the others of a gather or scatter).
  Tensor in, out;
  // The v forms: elements of each rank's part, and where the parts begin (one entry more than ranks). Of
  // all_to_all_v, what this rank sends; recv_ what it receives. Empty in the plain forms.
  std::vector<std::int64_t> counts, offsets, recv_counts, recv_offsets;
  std::vector<Tensor> nodes;
  std::int64_t leaves = 0, first = 0, last = 0;
  bool blocking = true;
  Stream stream;  // empty in the blocking form

  bool v() const { return !counts.empty(); }
  bool is(Kind k) const { return kind == k; }
  bool message() const { return kind == Kind::send || kind == Kind::recv; }
  bool tree() const { return kind == Kind::reduce_tree || kind == Kind::reduce_scatter_tree; }
  bool reduces() const {
    return kind == Kind::all_reduce || kind == Kind::reduce_scatter || kind == Kind::reduce;
  }
  // No rank has anything to move: known to all ranks alike.
  bool nothing() const { return count == 0 && !(kind == Kind::all_to_all && v()); }

  std::int64_t nbytes() const { return count * size_of(dtype); }
  // Rank q's part of the buffer that holds all parts, plain and v forms alike: elements, and bytes. Of all_to_all, of
  // `in`; received_* of `out`.
  std::int64_t part_count(int q) const { return v() ? counts[q] : count; }
  std::int64_t part_begin(int q) const { return v() ? offsets[q] : q * count; }
  std::int64_t part_bytes(int q) const { return part_count(q) * size_of(dtype); }
  std::int64_t part_offset(int q) const { return part_begin(q) * size_of(dtype); }
  std::int64_t received_bytes(int q) const { return (v() ? recv_counts[q] : count) * size_of(dtype); }
  std::int64_t received_offset(int q) const { return (v() ? recv_offsets[q] : q * count) * size_of(dtype); }
};

// "all_reduce of 16 f32 (sum)", "broadcast of 4 u8 from rank 2", "all_gather_v of 7 f32 (counts 3, 4)", "barrier".
std::string describe(const Operation& op);

// -- the public methods' arguments, checked (operation.cpp). Each throws ShapeError, ConfigError or DeviceError.
using Counts = Communicator::Counts;
Operation all_reduce_of(const Communicator& c, const Tensor& in, const Tensor& out, Reduction op);
Operation reduce_scatter_of(const Communicator& c, const Tensor& in, const Tensor& out, const Counts* counts,
                            Reduction op);
Operation all_gather_of(const Communicator& c, const Tensor& in, const Tensor& out, const Counts* counts);
Operation broadcast_of(const Communicator& c, const Tensor& t, int root);
Operation reduce_of(const Communicator& c, const Tensor& in, const Tensor& out, int root, Reduction op);
Operation gather_of(const Communicator& c, const Tensor& in, const Tensor& out, const Counts* counts,
                    int root);
Operation scatter_of(const Communicator& c, const Tensor& in, const Tensor& out, const Counts* counts,
                     int root);
Operation all_to_all_of(const Communicator& c, const Tensor& in, const Tensor& out);
Operation all_to_all_v_of(const Communicator& c, const Tensor& in, const Tensor& out, const Counts& sent,
                          const Counts& received);
Operation message_of(const Communicator& c, Kind kind, const Tensor& t, int peer);
Operation tree_of(const Communicator& c, Kind kind, const std::vector<Tensor>& nodes, std::int64_t leaves,
                  std::int64_t first, std::int64_t last, const Tensor& out);

}  // namespace shoal::comm

namespace shoal {
struct Communicator::Request : comm::Operation {};
}  // namespace shoal
