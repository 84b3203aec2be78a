// The one bucket engine of data parallelism: owns the flat buffers of values and gradients, reduces gradients
// once a step in buckets, from the last parameter to the first, while the backward pass goes on.
//
// A step, for a rank that owns `local_shards()` of the V data shards (V = ranks unless reproducible mode says
// otherwise):
//   engine.begin_step();
//   for each local shard i:
//     for each microbatch: mb.accumulate = not the shard's first;
//                          mb.sink = engine.sink(i, is the shard's last); model.forward, model.backward
//     engine.end_shard(i);
//   engine.finish();        // waits for the communication; owned ranges of grads are then the global sum
//   ... norm, clipping, optimizer on the owned ranges ...
//   engine.publish();       // ZeRO 1: all-gathers the updated parameters
//
// Shards of one rank are summed by the tree with a carry stack (R3, R5 b, c): the gradient views of the
// parameters move from slot to slot of the stack, so that a shard's gradient is written where it is summed,
// and are back in slot 0 (FlatParameters::grads) after finish(). Parts of a parameter (R5 d, e) are combined
// by the tree: in reproducible mode after the reduction over the data axis, else before it, so that they do
// not travel. With one rank and one shard there is no copy, no further pass over the gradients and no
// collective.
//
// One thread calls everything. Kernels are ordered by the stream given; collectives start after the work on
// it and are waited for in finish() and publish().
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "shoal/comm/communicator.hpp"
#include "shoal/nn/parameter.hpp"
#include "shoal/shard/layout.hpp"

namespace shoal::parallel {

struct BucketOptions {
  std::int64_t bucket_bytes = std::int64_t{4} << 20;
  int zero = 0;                  // 0: every rank owns everything; 1: owns an equal part of each bucket
  bool reproducible = false;     // sums by the tree over data shards
  std::int64_t data_shards = 0;  // V; 0: one a rank. Divisible by the rank count, else ConfigError. Not used
                                 // outside reproducible mode, where V is the rank count (R1)
  DType param_dtype = DType::f32;  // of the values: f32, bf16 or f16
  DType reduce_dtype =
      DType::f32;  // in which gradients travel; others than f32 are refused in reproducible mode (R7)
};

// The flat view that optimizers, norms and checkpoints work on.
struct FlatParameters {
  std::vector<nn::Parameter*> parameters;
  shard::FlatLayout layout;         // of values, and of part 0 of the gradients
  Tensor values;                    // [layout.numel], of BucketOptions::param_dtype; padding is zero
  Tensor grads;                     // f32 [layout.numel]; padding is zero
  std::vector<shard::Range> owned;  // ascending, cut at multiples of 256: what this rank updates
  bool partitioned = false;         // ranks own different ranges (ZeRO 1); else every rank owns everything
  std::shared_ptr<Communicator> comm;
  // Gives every rank the owned ranges of `grads` of all ranks, so that grads is whole: for optimizers that need a row,
  // a norm or a matrix. In stream order; collective where partitioned, else nothing. Not between begin_step and finish.
  std::function<void(const Stream& stream)> gather_grads;
};

class BucketEngine {
 public:
  // Collective. Gives every parameter its value (zeros, or what it held if it was defined) and gradient
  // views. Throws ConfigError for parameters listed twice, without parts, or of several pieces that are no
  // multiples of 256 elements; for ZeRO stages other than 0 and 1; and for data shards that do not divide
  // among the ranks.
  BucketEngine(std::vector<nn::Parameter*> parameters, std::shared_ptr<Communicator> comm,
               const BucketOptions& options, const Stream& stream);
  ~BucketEngine();
  BucketEngine(const BucketEngine&) = delete;
  BucketEngine& operator=(const BucketEngine&) = delete;

  std::int64_t data_shards() const;  // V
  std::int64_t local_shards() const;
  std::int64_t first_shard() const;  // this rank has shards [first_shard, first_shard + local_shards)
  FlatParameters& flat();
  void broadcast_parameters(int root = 0);  // collective: every rank gets root's values

  // Calls out of this order throw Error.
  void begin_step();
  // Null unless reduction starts here: in the last microbatch of the last local shard. ready() throws
  // TrainError for a parameter that is not the engine's, and for a part that was ready already.
  nn::GradientSink* sink(std::int64_t local_shard, bool last_microbatch);
  void end_shard(std::int64_t local_shard);
  void finish();  // throws TrainError naming a parameter that was never ready, and what a collective threw
  void publish();

  // What flat() of an engine for that rank says of layout and ownership, without memory: its tensors have a type and a
  // shape, and no data.
  static FlatParameters describe(std::vector<nn::Parameter*> parameters, int ranks, int rank,
                                 const BucketOptions& options);
  // Bytes of the values; and bytes the engine holds beyond them: gradients, parts, carry stack. Known without
  // memory, exactly what is asked of comm->allocator(), and the same on every rank.
  static std::int64_t value_bytes(const std::vector<nn::Parameter*>& parameters, int ranks,
                                  const BucketOptions& options);
  static std::int64_t predicted_bytes(const std::vector<nn::Parameter*>& parameters, int ranks, int rank,
                                      const BucketOptions& options);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shoal::parallel
