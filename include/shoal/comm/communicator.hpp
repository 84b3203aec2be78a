// A group of ranks and the collectives between them.
//
// Contract, for every backend:
//  - All ranks of a communicator call the same operations in the same order. Counts are elements.
//  - Buffers are contiguous; in place (same tensor for input and output) and zero counts are legal.
//  - Every rank gets the same bits of an all-reduce.
//  - A collective starts after the work already on `stream` (the communicator's own default, an idle CPU
//    stream, when none is given). The blocking form returns when the host may read the result. The _async form
//    returns a Work at once; the tensors are kept alive until it completes.
//  - Order is per communicator: operations of two communicators do not wait for each other.
//  - Size 1 behaves alike.
//  - With SHOAL_CHECK=1 ranks compare operation, sequence number, dtype and count first, and all throw the
//    same CommError when they differ. A wait longer than the deadline throws TimeoutError on every rank,
//    naming the operation and the ranks that had not arrived. After any error a communicator (and what was
//    split from it) is broken: later calls throw the same error.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shoal/comm/reduce_op.hpp"
#include "shoal/core/tensor.hpp"
#include "shoal/shard/tree.hpp"

namespace shoal {

class WorkImpl;

// A collective under way. A default-constructed Work is complete.
class Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<WorkImpl> impl) : impl_(std::move(impl)) {}
  bool is_completed() const;              // never blocks; true also when it failed
  void synchronize() const;               // blocks the host; throws what the operation threw
  void wait(const Stream& stream) const;  // later work of `stream` starts after it; never blocks the host
 private:
  std::shared_ptr<WorkImpl> impl_;
};

struct CommOptions {
  std::chrono::duration<double> timeout{300.0};  // SHOAL_TIMEOUT overrides
  bool check = false;                            // SHOAL_CHECK=1 or bits sets it
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string name() const = 0;     // "world", "world/0", ...
  virtual std::string backend() const = 0;  // "self", "local", "mpi"

  // Ranks of one color form a communicator, ordered by (key, rank). color < 0: this rank gets null.
  virtual std::shared_ptr<Communicator> split(int color, int key) = 0;
  // Memory from which collectives of this communicator and its splits are fastest. Allocating is collective.
  virtual std::shared_ptr<Allocator> allocator() = 0;

  // -- blocking ----------------------------------------------------------------------------------
  void all_reduce(const Tensor& t, ReduceOp op = ReduceOp::sum);  // in place
  void all_reduce(const Tensor& in, const Tensor& out, ReduceOp op);
  void reduce_scatter(const Tensor& in, const Tensor& out, ReduceOp op = ReduceOp::sum);  // in = size x out
  void all_gather(const Tensor& in, const Tensor& out);                                   // out = size x in
  void broadcast(const Tensor& t, int root);
  void reduce(const Tensor& in, const Tensor& out, int root, ReduceOp op = ReduceOp::sum);
  void all_to_all(const Tensor& in, const Tensor& out);
  void send(const Tensor& t, int peer);
  void recv(const Tensor& t, int peer);
  void barrier();
  // The ordered sum of reproducible mode. This rank holds leaves [first, last) of `leaves`; nodes[i] is the sum
  // of the leaves of shard::tree_nodes(leaves, first, last)[i] (all of equal count; overwritten). Ranks' runs
  // are contiguous and ascending by rank and cover all leaves. out (may be nodes[0]) gets the tree's sum:
  // whole (all-reduce form), or this rank's 1/size of it (reduce-scatter form, count divisible by size).
  void reduce_tree(const std::vector<Tensor>& nodes, std::int64_t leaves, std::int64_t first,
                   std::int64_t last, const Tensor& out);
  void reduce_scatter_tree(const std::vector<Tensor>& nodes, std::int64_t leaves, std::int64_t first,
                           std::int64_t last, const Tensor& out);

  // -- asynchronous --------------------------------------------------------------------------------
  Work all_reduce_async(const Tensor& in, const Tensor& out, ReduceOp op, const Stream& stream);
  Work reduce_scatter_async(const Tensor& in, const Tensor& out, ReduceOp op, const Stream& stream);
  Work all_gather_async(const Tensor& in, const Tensor& out, const Stream& stream);
  Work broadcast_async(const Tensor& t, int root, const Stream& stream);
  Work reduce_tree_async(const std::vector<Tensor>& nodes, std::int64_t leaves, std::int64_t first,
                         std::int64_t last, const Tensor& out, const Stream& stream);
  Work reduce_scatter_tree_async(const std::vector<Tensor>& nodes, std::int64_t leaves, std::int64_t first,
                                 std::int64_t last, const Tensor& out, const Stream& stream);

  // Breaks the communicator on all ranks: their pending and later calls throw CommError with `reason` and this
  // rank. Never blocks, never throws.
  virtual void abort(const std::string& reason) noexcept = 0;

 protected:
  struct Request;                            // one operation, as data (src/comm)
  virtual Work submit(Request request) = 0;  // checked shapes; to be run in order
};

}  // namespace shoal
