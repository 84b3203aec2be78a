// What the parts of the Trainer share.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shoal/data/dataset.hpp"
#include "shoal/data/sampler.hpp"
#include "shoal/optim/ema.hpp"
#include "shoal/optim/grad_scaler.hpp"
#include "shoal/optim/optimizer.hpp"
#include "shoal/optim/outlier.hpp"
#include "shoal/train/trainer.hpp"
#include "train/bits.hpp"
#include "train/records.hpp"

namespace shoal::train {

struct Trainer::Impl {
  Job job;      // resolved
  Types types;  // of it
  std::shared_ptr<Communicator> comm;
  TrainerOptions options;
  std::shared_ptr<Allocator> allocator;  // of this rank alone, so that its peak is this rank's
  Stream stream;
  std::unique_ptr<models::LanguageModel> model;
  std::optional<data::DataSplit> data;
  std::optional<data::Sampler> sampler;
  std::unique_ptr<parallel::BucketEngine> engine;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::optional<optim::GradScaler> scaler;
  std::optional<optim::OutlierFilter> outliers;
  std::optional<optim::WeightAverage> average;
  std::unique_ptr<Records> records;  // rank 0 only
  bool records_asked = false;        // of rank 0, by prepare_records()
  std::unique_ptr<BitsRecorder> bits;
  std::int64_t batch = 0;  // batches done

  // This rank's samples of one batch, and their microbatches in order of computation.
  struct Local {
    std::vector<std::int32_t> tokens, targets;
    std::int64_t first_sample = 0;  // in the global batch
    std::int64_t valid = 0;
  };
  std::int64_t shard_samples() const { return job.train.global_batch / engine->data_shards(); }
  std::int64_t microbatches() const { return shard_samples() / job.train.micro_batch; }  // a data shard

  Impl(const Job& given, std::shared_ptr<Communicator> c, TrainerOptions o);
  void verify_data() const;
  void prepare_records();
  void notice(const std::string& line) const;  // on rank 0
  Local read_batch() const;
  nn::Microbatch microbatch(const Local& local, std::int64_t index, std::int64_t count);
  Tensor ids(const std::vector<std::int32_t>& all, std::int64_t index) const;  // of local microbatch `index`
  std::vector<double> forward_backward(const Local& local,
                                       std::int64_t count);  // loss sum of each microbatch
  Metrics step();
  // Whether the step's gradients are to be used; else says in `m` why not. The same on every rank.
  bool usable(const Local& local, std::int64_t count, Metrics& m);
  // Where the gradients first overflowed, by computing them again (they are lost). Collective.
  Overflow find_overflow(const Local& local, std::int64_t count);
  void update(const Metrics& m);
  double evaluate();
  double evaluate_average();  // with the average of the weights
  // body() with the parameters' values replaced by the average, in the memory of the gradients.
  void with_average(const std::function<void()>& body);
  void check_replicas();  // collective; throws on all ranks alike
  void run();
  void save_weights(const std::string& path);
  std::int64_t peak_bytes() const;

  // Both throw on all ranks alike.
  [[noreturn]] void report_loss(const Local& local, std::int64_t count,
                                const std::vector<double>& microbatch_sums,
                                const std::vector<double>& shard_sums);
  [[noreturn]] void report_gradient(double norm);
};

parallel::BucketOptions bucket_options(const Job& resolved);

// Parameters, their gradients and the optimizer's state alone: at once, also for models of absurd sizes, whose bucket
// plan predict_memory() would have to make.
MemoryPrediction least_memory(const Job& job, models::LanguageModel& model);

// Identifies build, instruction set and job: throws ConfigError, on all ranks, where these differ and matter.
void compare_ranks(const Job& job, const data::DataSplit& data, Communicator& comm, const Stream& stream);

}  // namespace shoal::train
