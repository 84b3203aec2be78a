// The one bucket engine of data parallelism: owns the flat buffers of values and gradients, reduces gradients once
// a step in buckets, from the last parameter to the first, while the backward pass goes on.
//
// A step, for a rank that owns `local_shards()` of the V data shards (V = ranks unless reproducible mode says
// otherwise):
//   engine.begin_step();
//   for each local shard i:
//     for each microbatch: mb.accumulate = not the shard's first; mb.sink = engine.sink(i, is the shard's last);
//                          model.forward, model.backward
//     engine.end_shard(i);
//   engine.finish();        // waits for the communication; afterwards owned ranges of grads are the global sum
//   ... norm, clipping, optimizer on the owned ranges ...
//   engine.publish();       // ZeRO 1: all-gathers the updated parameters
//
// Shards of one rank are summed by the tree with a carry stack (R3, R5 b, c); parts of a parameter (R5 d, e) are
// combined after the reduction. With one shard a rank there is no stack and no extra pass.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "shoal/comm/communicator.hpp"
#include "shoal/nn/parameter.hpp"
#include "shoal/shard/layout.hpp"

namespace shoal::parallel {

struct BucketOptions {
  std::int64_t bucket_bytes = std::int64_t{4} << 20;
  int zero = 0;                    // 0: every rank owns everything; 1: owns its partition of each bucket
  bool reproducible = false;       // sums by the tree over data shards
  std::int64_t data_shards = 0;    // V; 0: one a rank. Divisible by the rank count, else ConfigError
};

// The flat view that optimizers, norms and checkpoints work on.
struct FlatParameters {
  std::vector<nn::Parameter*> parameters;
  shard::FlatLayout layout;        // of values, and of part 0 of the gradients
  Tensor values, grads;            // f32 [layout.numel]
  std::vector<shard::Range> owned; // ascending ranges (multiples of 256) that this rank updates; all of it at stage 0
  std::shared_ptr<Communicator> comm;
};

class BucketEngine {
 public:
  BucketEngine(std::vector<nn::Parameter*> parameters, std::shared_ptr<Communicator> comm,
               const BucketOptions& options, const Stream& stream);
  ~BucketEngine();
  BucketEngine(const BucketEngine&) = delete;
  BucketEngine& operator=(const BucketEngine&) = delete;

  std::int64_t data_shards() const;
  std::int64_t local_shards() const;
  std::int64_t first_shard() const;
  FlatParameters& flat();
  void broadcast_parameters(int root = 0);  // every rank gets root's values

  void begin_step();
  nn::GradientSink* sink(std::int64_t local_shard, bool last_microbatch);  // null unless reduction starts here
  void end_shard(std::int64_t local_shard);
  void finish();
  void publish();

  // Bytes the engine holds beyond the values: gradients, parts, carry stack. Known without memory.
  static std::int64_t predicted_bytes(const std::vector<nn::Parameter*>& parameters, int ranks, int rank,
                                      const BucketOptions& options);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shoal::parallel
