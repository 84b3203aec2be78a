// A group of ranks and the collectives between them.
//
// Contract, for every backend:
//  - All ranks of a communicator call the same collectives in the same order. Counts are elements, in 64 bits.
//  - Buffers are contiguous; in place and zero counts are legal. In place means the same tensor for input and
//    output, or, where one is a part of the other, this rank's own part of it.
//  - Reductions are of f32, f64, f16, bf16, i32, i64 and u8; what only moves data takes u16 and u32 too.
//    Averages and pre-scaled sums are of floating-point types.
//  - Every rank gets the same bits of an all-reduce.
//  - A collective starts after the work already on `stream` (the communicator's own default, an idle CPU
//    stream, when none is given). The blocking form returns when the host may read the result. The _async form
//    returns a Work at once; the tensors are kept alive until it completes.
//  - Order is per communicator: operations of two communicators do not wait for each other. Messages (send,
//    recv) are in order for each pair of ranks, and beside the collectives: a pending one delays nothing else.
//  - Any thread may call; two threads that call collectives of one communicator see to their order themselves.
//  - Size 1 behaves alike.
//  - With SHOAL_CHECK=1 ranks compare operation, sequence number, dtype, count, counts of the v forms, root and
//    reduction first, and all throw the same CommError when they differ. A wait longer than the deadline throws
//    TimeoutError on every rank, naming the operation and the ranks that had not arrived. After any error a
//    communicator (and what was split from it) is broken: later calls throw the same error.
//  - Wrong shapes and dtypes are a ShapeError, wrong ranks, counts and reductions a ConfigError, both thrown
//    before anything is sent; the communicator goes on.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
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
  bool is_completed() const;  // never blocks; true also when it failed
  void synchronize() const;   // blocks the host; throws what the operation threw
  // Blocks the host for at most that time; true when it has completed. Never throws what the operation threw.
  bool wait_for(std::chrono::duration<double> time) const;
  void wait(const Stream& stream) const;  // later work of `stream` starts after it; never blocks the host
 private:
  std::shared_ptr<WorkImpl> impl_;
};

struct CommOptions {
  std::chrono::duration<double> timeout{300.0};  // SHOAL_TIMEOUT overrides
  bool check = false;                            // SHOAL_CHECK=1 or bits sets it
  // Ranks that are processes of one host allocate from shared memory. False where /dev/shm has no room: buffers
  // stay private and are copied, or transferred in stages. SHOAL_SHARED_BUFFERS overrides.
  bool shared_buffers = true;
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
  void all_reduce(const Tensor& t, Reduction op = {});  // in place
  void all_reduce(const Tensor& in, const Tensor& out, Reduction op);
  void reduce_scatter(const Tensor& in, const Tensor& out, Reduction op = {});  // in = size x out
  void all_gather(const Tensor& in, const Tensor& out);                         // out = size x in
  void broadcast(const Tensor& t, int root);
  // What only the root reads or writes may be an undefined tensor on the other ranks.
  void reduce(const Tensor& in, const Tensor& out, int root, Reduction op = {});
  void gather(const Tensor& in, const Tensor& out, int root);   // the root's out = size x in
  void scatter(const Tensor& in, const Tensor& out, int root);  // the root's in = size x out
  void all_to_all(const Tensor& in, const Tensor& out);         // both size parts; part q goes to rank q
  void send(const Tensor& t, int peer);
  void recv(const Tensor& t, int peer);
  void barrier();

  // Unequal parts: counts[q] elements for rank q, one after another in the buffer that holds all parts. Every
  // rank gives the same counts; of all_to_all_v, what it sends to and receives from each rank.
  using Counts = std::vector<std::int64_t>;
  void reduce_scatter_v(const Tensor& in, const Tensor& out, const Counts& counts, Reduction op = {});
  void all_gather_v(const Tensor& in, const Tensor& out, const Counts& counts);
  void gather_v(const Tensor& in, const Tensor& out, const Counts& counts, int root);
  void scatter_v(const Tensor& in, const Tensor& out, const Counts& counts, int root);
  void all_to_all_v(const Tensor& in, const Tensor& out, const Counts& send_counts,
                    const Counts& recv_counts);

  // The ordered sum of reproducible mode. This rank holds leaves [first, last) of `leaves`; nodes[i] is the sum
  // of the leaves of shard::tree_nodes(leaves, first, last)[i] (all of equal count; overwritten), f32 or f64.
  // f16 and bf16 have no exact partial sums: there nodes[i] is leaf first + i, and the tree over all leaves is
  // summed in FP32 and rounded once. Ranks' runs are contiguous and ascending by rank and cover all leaves. out
  // (may be nodes[0]) gets the tree's sum: whole (all-reduce form), or this rank's 1/size of it
  // (reduce-scatter form, count divisible by size). The bits do not depend on how leaves lie on ranks.
  void reduce_tree(const std::vector<Tensor>& nodes, std::int64_t leaves, std::int64_t first,
                   std::int64_t last, const Tensor& out);
  void reduce_scatter_tree(const std::vector<Tensor>& nodes, std::int64_t leaves, std::int64_t first,
                           std::int64_t last, const Tensor& out);

  // -- asynchronous --------------------------------------------------------------------------------
  Work all_reduce_async(const Tensor& in, const Tensor& out, Reduction op, const Stream& stream);
  Work reduce_scatter_async(const Tensor& in, const Tensor& out, Reduction op, const Stream& stream);
  Work all_gather_async(const Tensor& in, const Tensor& out, const Stream& stream);
  Work broadcast_async(const Tensor& t, int root, const Stream& stream);
  Work reduce_async(const Tensor& in, const Tensor& out, int root, Reduction op, const Stream& stream);
  Work gather_async(const Tensor& in, const Tensor& out, int root, const Stream& stream);
  Work scatter_async(const Tensor& in, const Tensor& out, int root, const Stream& stream);
  Work all_to_all_async(const Tensor& in, const Tensor& out, const Stream& stream);
  Work send_async(const Tensor& t, int peer, const Stream& stream);
  Work recv_async(const Tensor& t, int peer, const Stream& stream);
  Work barrier_async(const Stream& stream);
  Work reduce_scatter_v_async(const Tensor& in, const Tensor& out, const Counts& counts, Reduction op,
                              const Stream& stream);
  Work all_gather_v_async(const Tensor& in, const Tensor& out, const Counts& counts, const Stream& stream);
  Work gather_v_async(const Tensor& in, const Tensor& out, const Counts& counts, int root,
                      const Stream& stream);
  Work scatter_v_async(const Tensor& in, const Tensor& out, const Counts& counts, int root,
                       const Stream& stream);
  Work all_to_all_v_async(const Tensor& in, const Tensor& out, const Counts& send_counts,
                          const Counts& recv_counts, const Stream& stream);
  Work reduce_tree_async(const std::vector<Tensor>& nodes, std::int64_t leaves, std::int64_t first,
                         std::int64_t last, const Tensor& out, const Stream& stream);
  Work reduce_scatter_tree_async(const std::vector<Tensor>& nodes, std::int64_t leaves, std::int64_t first,
                                 std::int64_t last, const Tensor& out, const Stream& stream);

  // -- groups --------------------------------------------------------------------------------------
  // Operations that this thread issues on this communicator between group_start and group_end start together,
  // at group_end, and none blocks: sends and receives of a group may be in any order on different ranks, and
  // blocking forms return at once. group_end returns when the blocking forms are done, and throws the first
  // error of any of them. A Work given in between may be waited for after group_end. Groups may be nested: the
  // outermost counts. split within a group is a CommError.
  virtual void group_start() = 0;
  virtual void group_end() = 0;
  // In place of group_end, when an exception ends the group: drops what was issued since group_start.
  virtual void group_cancel() noexcept = 0;

  // -- what runs -----------------------------------------------------------------------------------
  // The algorithm that an operation ("all_reduce", "all_gather_v", ...) of nbytes takes here, as in
  // "local direct" or "mpi scatter-gather"; nbytes as in nccl-tests: the largest of a rank's buffers. `direct`:
  // the buffers come from allocator(). Throws ConfigError for a name that is no operation.
  virtual std::string describe_algorithm(std::string_view operation, std::int64_t nbytes,
                                         bool direct = true) const = 0;

  // Breaks the communicator on all ranks: their pending and later calls throw CommError with `reason` and this
  // rank. Never blocks, never throws.
  virtual void abort(const std::string& reason) noexcept = 0;

 protected:
  struct Request;                            // one operation, as data (src/comm)
  virtual Work submit(Request request) = 0;  // checked shapes; to be run in order

 private:
  void run(Request request);                        // the blocking form
  Work run(Request request, const Stream& stream);  // the asynchronous form
};

// For what embeds this library in a runtime with interrupts of its own (Python's Ctrl-C): `hook` is called now
// and then by threads that wait for other ranks. When it returns true, that wait ends with a CommError which
// says so, on all ranks. Null: none. The hook must not throw.
void set_interrupt_hook(bool (*hook)());

}  // namespace shoal
