// Runs a job: data, model, bucket engine, optimizer, metrics.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "shoal/comm/communicator.hpp"
#include "shoal/core/stream.hpp"
#include "shoal/models/model.hpp"
#include "shoal/parallel/data/bucket_engine.hpp"
#include "shoal/train/job.hpp"

namespace shoal::train {

// Where a gradient was first not finite.
struct Overflow {
  std::string parameter;  // of the model's parameters, the first in model order
  int rank = -1;          // that computed it: the lowest; -1: every rank's was finite, and their sum is not
};

// One line of metrics.jsonl.
struct Metrics {
  std::int64_t step = 0;  // from 1
  double loss = 0;        // mean over the step's valid tokens, before the update
  double grad_norm = 0;   // before clipping
  double lr = 0;
  std::int64_t tokens = 0;  // valid tokens this step
  double seconds = 0;
  double tokens_per_second = 0;
  double loss_scale = 1;
  bool skipped = false;              // no parameter, moment, count of updates or learning rate moved
  std::optional<Overflow> overflow;  // why: gradients overflowed at loss_scale
  std::optional<double> outlier;     // why: its z-score is above outliers.zscore
  std::int64_t peak_bytes = 0;       // maximum over ranks
  std::optional<double> val_loss, val_loss_ema;
  std::string json() const;  // floats read back to the same bits, non-finite ones are null
};

// Bytes of one rank, predicted from the job alone. Gradients include the bucket engine's buffers.
struct MemoryPrediction {
  std::int64_t parameters = 0, gradients = 0, optimizer = 0, activations = 0, other = 0;
  std::int64_t total() const { return parameters + gradients + optimizer + activations + other; }
};
MemoryPrediction predict_memory(const Job& resolved, int ranks, int rank);

struct TrainerOptions {
  // run() writes job.toml, metrics.jsonl and model.safetensors into run.dir. It is made, and refused where it cannot be
  // written, by the constructor; with late_records by run(), for programs that may only call step(), which
  // writes nothing.
  bool write_records = true, late_records = false;
  std::function<void(const Metrics&)> on_step;  // rank 0 only
  // What a user should know of, in a line, such as where an earlier run's records went; rank 0 only. None: the log.
  std::function<void(const std::string&)> on_notice;
  std::function<void(const MemoryPrediction&)> on_start;  // rank 0 only, before the memory is taken
  // Sees every activation and activation gradient of a step (nn/context.hpp), before SHOAL_CHECK=bits hashes
  // it.
  nn::Observer observer;
};

class Trainer {
 public:
  // Collective. Reads data, builds the model and gives every rank the same initial values.
  Trainer(const Job& job, std::shared_ptr<Communicator> comm, TrainerOptions options = {});
  ~Trainer();

  const Job& job() const;  // as resolved
  // One global batch. Collective. A loss that is not finite is a TrainError, the same on every rank, naming the step,
  // the rank and the first layer that produced it; no parameter has been updated then. So are gradients that are not
  // finite, unless there is a loss scaler: then the step is skipped, and only overflows in a row at its least scale
  // (scaler.give_up) are an error.
  Metrics step();
  // Mean loss over the whole validation part, in windows that do not overlap. The same bits for any rank
  // count of a reproducible job. Throws ConfigError when there is no validation part. Collective.
  double evaluate();
  double evaluate_average();  // the same with the average of the weights (ema.decay), else ConfigError
  bool has_validation() const;
  void run();  // the remaining steps, evaluations, and the final weights; collective
  void save_weights(const std::string& path);  // rank 0 writes a safetensors file; collective
  std::int64_t peak_bytes() const;             // of this rank's allocators, so far
  models::LanguageModel& model();
  parallel::BucketEngine& engine();
  optim::Optimizer& optimizer();
  const Stream& stream() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shoal::train
