// One step: R10 says which samples, R5 in which order sums are made, R11 where the division by the token
// count is.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "shoal/core/error.hpp"
#include "shoal/core/threads.hpp"
#include "shoal/ops/cross_entropy.hpp"
#include "shoal/train/loss.hpp"
#include "train/host.hpp"
#include "train/trainer_impl.hpp"

namespace shoal::train {
namespace {

// Sums of consecutive groups, each added in index order.
std::vector<double> group_sums(const std::vector<double>& values, std::int64_t group) {
  std::vector<double> sums;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (static_cast<std::int64_t>(i) % group == 0)
      sums.push_back(values[i]);
    else
      sums.back() += values[i];
  }
  return sums;
}

}  // namespace

Trainer::Impl::Local Trainer::Impl::read_batch() const {
  Local local;
  local.first_sample = engine->first_shard() * shard_samples();
  const std::int64_t samples = engine->local_shards() * shard_samples();
  try {
    local.tokens.resize(static_cast<std::size_t>(samples * job.model.seq));
    local.targets.resize(local.tokens.size());
  } catch (const std::exception&) {  // bad_alloc, length_error: neither says what was asked for
    throw ConfigError(
        fmt::format("out of memory: train.global_batch = {} gives this rank {} samples of model.seq = {} "
                    "tokens a step",
                    job.train.global_batch, samples, job.model.seq));
  }
  data::fill_batch(data->train, *sampler, batch, local.first_sample, samples, host_view(local.tokens),
                   host_view(local.targets));
  local.valid = static_cast<std::int64_t>(local.targets.size()) -
                std::count(local.targets.begin(), local.targets.end(), ops::ignored_token);
  return local;
}

nn::Microbatch Trainer::Impl::microbatch(const Local& local, std::int64_t index, std::int64_t count) {
  nn::Microbatch mb;
  mb.seed = job.train.seed;
  mb.batch = static_cast<std::uint64_t>(batch);
  mb.samples = job.train.micro_batch;
  mb.first_sample = local.first_sample + index * mb.samples;
  mb.seq = job.model.seq;
  mb.dtype = types.compute;
  mb.accumulate = index % microbatches() != 0;
  mb.loss_scale_over_count = static_cast<float>(scaler->scale() / static_cast<double>(count));
  mb.stream = stream;
  nn::Observer recorder;
  if (bits) recorder = bits->observer(batch + 1, mb.first_sample, stream);
  if (options.observer && recorder) {
    mb.observer = [user = options.observer, recorder](const std::string& kind, const std::string& layer,
                                                      const Tensor& t) {
      user(kind, layer, t);
      recorder(kind, layer, t);
    };
  } else {
    mb.observer = recorder ? recorder : options.observer;
  }
  return mb;
}

Tensor Trainer::Impl::ids(const std::vector<std::int32_t>& all, std::int64_t index) const {
  const std::int64_t n = job.train.micro_batch * job.model.seq;
  const auto first = all.begin() + index * n;
  return to_device(stream, std::vector<std::int32_t>(first, first + n));
}

std::vector<double> Trainer::Impl::forward_backward(const Local& local, std::int64_t count) {
  const std::int64_t per_shard = microbatches();
  const Tensor sums = Tensor::empty({engine->local_shards() * per_shard}, DType::f64, stream);
  engine->begin_step();
  for (std::int64_t shard = 0; shard < engine->local_shards(); ++shard) {
    for (std::int64_t k = 0; k < per_shard; ++k) {
      const std::int64_t index = shard * per_shard + k;
      nn::Microbatch mb = microbatch(local, index, count);
      mb.sink = engine->sink(shard, k + 1 == per_shard);
      nn::Saved saved;
      ops::loss_sum(stream,
                    model->forward(ids(local.tokens, index), ids(local.targets, index), saved, mb).flat(),
                    sums.slice(index, index + 1));
      model->backward(saved, mb);
    }
    engine->end_shard(shard);
  }
  engine->finish();
  return to_host<double>(stream, sums);
}

Metrics Trainer::Impl::step() {
  const auto start = std::chrono::steady_clock::now();
  set_num_threads(job.train.threads);  // of the calling thread
  const Local local = read_batch();
  const std::int64_t count = agree_count(*comm, stream, local.valid);
  if (count == 0) throw TrainError(fmt::format("step {}: the batch has no valid token", batch + 1));

  const std::vector<double> sums = forward_backward(local, count);
  const std::vector<double> shards = gather_losses(*comm, stream, group_sums(sums, microbatches()));
  Metrics m;
  m.step = batch + 1;
  m.tokens = count;
  m.loss = tree_sum(shards) / static_cast<double>(count);
  if (!std::isfinite(m.loss)) report_loss(local, count, sums, shards);

  auto& flat = engine->flat();
  m.loss_scale = scaler->scale();
  m.grad_norm = optim::grad_norm(flat, stream) / m.loss_scale;
  if (bits) {
    bits->number(m.step, Phase::loss, "loss", m.loss);
    bits->parameters(m.step, Phase::gradients, "reduced gradient", flat, flat.grads, flat.partitioned,
                     stream);
    bits->number(m.step, Phase::norm, "gradient norm", m.grad_norm);
  }
  m.lr = optim::learning_rate(job.schedule, optimizer->applied());
  m.skipped = !usable(local, count, m);
  if (!m.skipped) update(m);
  if (bits)
    bits->parameters(m.step, Phase::parameters, "updated parameter", flat, flat.values, false, stream);

  const Tensor peak = to_device<std::int64_t>(stream, {peak_bytes()});
  comm->all_reduce(peak, ReduceOp::max);
  m.peak_bytes = to_host<std::int64_t>(stream, peak)[0];
  m.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  m.tokens_per_second = static_cast<double>(count) / m.seconds;
  ++batch;
  return m;
}

void Trainer::Impl::update(const Metrics& m) {
  auto& flat = engine->flat();
  const double unscale = 1 / m.loss_scale;  // the scaler's has gone on
  double factor = unscale * optim::clip_factor(m.grad_norm, job.train.clip);
  if (job.train.clip_value > 0) {
    optim::clip_by_value(flat, unscale, job.train.clip_value, stream);
    factor = 1;
  }
  optimizer->step(stream, {m.lr, factor, job.train.seed, static_cast<std::uint64_t>(batch)});
  engine->publish();
  if (average) average->update(*optimizer, stream);
  stream.synchronize();
}

}  // namespace shoal::train
