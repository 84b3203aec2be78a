// Steps that are not taken: gradients that overflow at the loss scale, and outliers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "shoal/core/error.hpp"
#include "shoal/core/text.hpp"
#include "shoal/train/agree.hpp"
#include "train/host.hpp"
#include "train/trainer_impl.hpp"

namespace shoal::train {
namespace {

constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();

bool all_finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

// The first parameter one of whose gradients (of any part) is not finite; `none` where there is no such.
std::int64_t first_overflow(const Stream& stream, const std::vector<nn::Parameter*>& parameters) {
  for (std::size_t p = 0; p < parameters.size(); ++p)
    for (const Tensor& grad : parameters[p]->grad)
      for (std::int64_t piece = 0; piece < parameters[p]->pieces(); ++piece)
        if (!all_finite(to_host<float>(stream, grad.select(piece)))) return static_cast<std::int64_t>(p);
  return none;
}

}  // namespace

bool Trainer::Impl::usable(const Local& local, std::int64_t count, Metrics& m) {
  if (!std::isfinite(m.grad_norm)) {
    if (!scaler->enabled()) report_gradient(m.grad_norm);
    m.overflow = find_overflow(local, count);
    scaler->update(true);
    if (scaler->exhausted())
      together(*comm, stream, [&] {
        throw TrainError(fmt::format(
            "step {}: the gradients overflowed {} times in a row at a loss scale of {}, the least there is "
            "(scaler.{}); the last time first that of {}, {}",
            m.step, job.scaler.give_up, text::number(m.loss_scale),
            job.scaler.mode == "static" ? "initial" : "minimum", m.overflow->parameter,
            m.overflow->rank < 0 ? "in the sum over the ranks"
                                 : fmt::format("on rank {}", m.overflow->rank)));
      });
    return false;
  }
  const double value = job.outliers.of == "loss" ? m.loss : m.grad_norm;
  const double z = outliers->zscore(value);
  scaler->update(false);
  if (!outliers->skip(value)) return true;
  m.outlier = z;
  return false;
}

// A data shard's gradient is the same on every layout, so its first overflow is; the rank is the one that has the shard.
Overflow Trainer::Impl::find_overflow(const Local& local, std::int64_t count) {
  const auto parameters = model->parameters();
  // Before they are overwritten: what the sum has.
  const std::vector<float> sum = to_host<float>(stream, engine->flat().grads);
  std::int64_t in_sum = none;
  for (const shard::Segment& s : engine->flat().layout.segments)
    for (const shard::Range& r : engine->flat().owned)
      for (std::int64_t e = std::max(r.first, s.offset);
           e < std::min(r.last, s.offset + s.numel) && s.tensor < in_sum; ++e)
        if (!std::isfinite(sum[static_cast<std::size_t>(e)])) in_sum = s.tensor;

  std::int64_t shard_found = none, parameter_found = none;
  const std::int64_t per_shard = microbatches();
  for (std::int64_t shard = 0; shard < engine->local_shards() && shard_found == none; ++shard) {
    for (std::int64_t k = 0; k < per_shard; ++k) {
      const std::int64_t index = shard * per_shard + k;
      nn::Microbatch mb = microbatch(local, index, count);
      mb.observer = {};
      nn::Saved saved;
      model->forward(ids(local.tokens, index), ids(local.targets, index), saved, mb);
      model->backward(saved, mb);
    }
    parameter_found = first_overflow(stream, parameters);
    if (parameter_found != none) shard_found = engine->first_shard() + shard;
  }
  const Tensor all = Tensor::empty({comm->size() * 3}, DType::i64, stream);
  comm->all_gather(to_device<std::int64_t>(stream, {shard_found, parameter_found, in_sum}), all);
  const std::vector<std::int64_t> found = to_host<std::int64_t>(stream, all);
  Overflow result;
  std::int64_t shard = none, parameter = none, summed = none;
  for (int r = 0; r < comm->size(); ++r) {
    const std::int64_t* one = &found[static_cast<std::size_t>(r) * 3];
    summed = std::min(summed, one[2]);
    if (one[0] >= shard) continue;
    shard = one[0];
    parameter = one[1];
    result.rank = r;
  }
  if (shard == none) parameter = summed;
  if (parameter != none) result.parameter = parameters[static_cast<std::size_t>(parameter)]->name;
  return result;
}

}  // namespace shoal::train
