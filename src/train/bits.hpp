// SHOAL_CHECK=bits: a hash of every logical tensor of a run, for `shoal diff`.
//
// One line a tensor in run.dir/bits/rank-N.jsonl. Lines are ordered by (step, phase, sample, seq), which are
// the same on every layout of a reproducible job: per-microbatch tensors by the microbatch's first sample and
// their order in it; then the loss, the reduced gradients, their norm and the updated parameters, once a
// step.
#pragma once
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "shoal/nn/context.hpp"
#include "shoal/parallel/data/bucket_engine.hpp"

namespace shoal::train {

enum class Phase : int { microbatch, loss, gradients, norm, parameters };

class BitsRecorder {
 public:
  BitsRecorder(const std::string& run_dir, int rank);  // run_dir/bits must exist
  // Hashes what a model shows of the microbatch that begins at `sample`, one line a leading piece.
  nn::Observer observer(std::int64_t step, std::int64_t sample, const Stream& stream);
  void number(std::int64_t step, Phase phase, const std::string& kind, double value);
  // One line a segment of the flat layout. Where ranges are partitioned over ranks this is collective and the
  // result is that of the whole segment; rank 0 writes.
  void parameters(std::int64_t step, Phase phase, const std::string& kind,
                  const parallel::FlatParameters& flat, const Tensor& values, bool partitioned,
                  const Stream& stream);

 private:
  void line(std::int64_t step, Phase phase, std::int64_t sample, std::int64_t seq, const std::string& kind,
            const std::string& layer, std::int64_t piece, std::uint64_t hash);
  std::string path_;
  std::ofstream out_;
  int rank_;
  std::int64_t seq_ = 0;
};

}  // namespace shoal::train
