// The bytes of a run, from the job alone.
#include <algorithm>
#include <limits>

#include "shoal/shard/layout.hpp"
#include "train/trainer_impl.hpp"

namespace shoal::train {
namespace {

std::int64_t block(std::int64_t bytes) { return shard::round_up(bytes, 256); }  // as the allocator counts

}  // namespace

parallel::BucketOptions bucket_options(const Job& job) {
  const Types types = types_of(job);
  parallel::BucketOptions o;
  o.zero = job.parallel.zero;
  o.reproducible = job.reproducible.on;
  o.data_shards = job.reproducible.on ? job.reproducible.data : 0;
  o.param_dtype = types.param;
  o.reduce_dtype = types.reduce;
  return o;
}

MemoryPrediction least_memory(const Job& job, models::LanguageModel& model) {
  const auto sum = [](std::int64_t a, std::int64_t b) {
    std::int64_t out = 0;
    return __builtin_add_overflow(a, b, &out) ? std::numeric_limits<std::int64_t>::max() / 16 : out;
  };
  std::int64_t numel = 0;
  for (const nn::Parameter* p : model.parameters())
    numel = std::min(sum(numel, p->numel()), std::numeric_limits<std::int64_t>::max() / 64);
  MemoryPrediction m;
  m.parameters = numel * size_of(types_of(job).param);
  m.gradients = numel * size_of(DType::f32);
  m.optimizer =
      optim::optimizer_state_bytes(job.optimizer, numel / (job.parallel.zero == 0 ? 1 : job.parallel.data));
  return m;
}

MemoryPrediction predict_memory(const Job& job, int ranks, int rank) {
  const auto model = models::make_model(job.model);
  const auto parameters = model->parameters();
  const parallel::BucketOptions buckets = bucket_options(job);
  const Types types = types_of(job);
  MemoryPrediction m;
  m.parameters = parallel::BucketEngine::value_bytes(parameters, ranks, buckets);
  m.gradients = parallel::BucketEngine::predicted_bytes(parameters, ranks, rank, buckets);
  m.optimizer = optim::optimizer_state_bytes(
      job.optimizer, parallel::BucketEngine::describe(parameters, ranks, rank, buckets));
  if (job.ema.decay > 0) {
    std::int64_t owned = 0;
    for (const shard::Range& r : parallel::BucketEngine::describe(parameters, ranks, rank, buckets).owned)
      owned += r.size();
    m.optimizer += block(owned * size_of(DType::f32));
  }
  m.activations = model->activation_peak_bytes(job.train.micro_batch, types.compute);
  const std::int64_t ids = job.train.micro_batch * job.model.seq * size_of(DType::i32);
  m.other =
      2 * block(ids) + block(job.train.global_batch / ranks / job.train.micro_batch * size_of(DType::f64));
  return m;
}

}  // namespace shoal::train
