// One operation as data: what the checked public methods hand to a backend.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/comm/communicator.hpp"

namespace shoal::comm {

enum class Kind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  all_to_all,
  barrier,
  send,
  recv,
  reduce_tree,
  reduce_scatter_tree,
  split
};
const char* name(Kind kind);

// `count` is what ranks must agree on, in elements: the whole buffer for all_reduce, reduce, broadcast, send,
// recv and both tree forms; one rank's part for reduce_scatter, all_gather and all_to_all.
struct Operation {
  Kind kind = Kind::barrier;
  DType dtype = DType::u8;
  ReduceOp reduce = ReduceOp::sum;
  int root = -1;  // or the peer
  std::int64_t count = 0;
  Tensor in, out;
  std::vector<Tensor> nodes;
  std::int64_t leaves = 0, first = 0, last = 0;
  bool blocking = true;
  Stream stream;  // empty in the blocking form

  std::int64_t nbytes() const { return count * size_of(dtype); }
  bool reduces() const {
    return kind == Kind::all_reduce || kind == Kind::reduce_scatter || kind == Kind::reduce;
  }
};

// "all_reduce of 16 f32 (sum)", "broadcast of 4 u8 from rank 2", "barrier".
std::string describe(const Operation& op);

}  // namespace shoal::comm

namespace shoal {
struct Communicator::Request : comm::Operation {};
}  // namespace shoal
