// The search for the first value that is not finite: costs nothing until it is needed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "shoal/core/error.hpp"
#include "shoal/core/text.hpp"
#include "shoal/train/agree.hpp"
#include "shoal/train/loss.hpp"
#include "train/host.hpp"
#include "train/trainer_impl.hpp"

namespace shoal::train {
namespace {

std::optional<std::size_t> first_nonfinite(const std::vector<float>& values) {
  const auto at = std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
  if (at == values.end()) return std::nullopt;
  return static_cast<std::size_t>(at - values.begin());
}

bool finite(double x) { return std::isfinite(x); }

}  // namespace

void Trainer::Impl::report_loss(const Local& local, std::int64_t count,
                                const std::vector<double>& microbatch_sums,
                                const std::vector<double>& shard_sums) {
  const auto shard = std::find_if_not(shard_sums.begin(), shard_sums.end(), finite) - shard_sums.begin();
  const std::int64_t rank = shard / engine->local_shards();
  together(*comm, stream, [&] {
    if (comm->rank() != rank) return;
    const auto sum = std::find_if_not(microbatch_sums.begin(), microbatch_sums.end(), finite);
    if (sum == microbatch_sums.end()) return;  // only their sum overflows
    const std::int64_t index = sum - microbatch_sums.begin();
    nn::Microbatch mb = microbatch(local, index, count);  // the same forward pass again, watched
    std::string where;
    mb.observer = [&, also = options.observer](const std::string& kind, const std::string& layer,
                                               const Tensor& t) {
      if (also) also(kind, layer, t);
      if (!where.empty() || !ops::is_training_type(t.dtype())) return;
      const std::vector<float> values = to_host_f32(stream, t);
      if (const auto at = first_nonfinite(values))
        where = fmt::format("{} {}, the {} of shape {}, element {}", layer, text::number(values[*at]), kind,
                            t.shape().str(), *at);
    };
    nn::Saved saved;
    model->forward(ids(local.tokens, index), ids(local.targets, index), saved, mb);
    throw TrainError(fmt::format(
        "step {}: the loss is {}: the first layer with a value that is not finite is {} (rank {}, samples "
        "{} to {} of the batch)",
        batch + 1, text::number(*sum), where.empty() ? "the loss itself" : where, rank, mb.first_sample,
        mb.first_sample + mb.samples - 1));
  });
  throw TrainError(
      fmt::format("step {}: the loss is not finite: the losses of the data shards overflow", batch + 1));
}

void Trainer::Impl::report_gradient(double norm) {
  auto& flat = engine->flat();
  together(*comm, stream, [&] {
    const std::vector<float> grads = to_host<float>(stream, flat.grads);
    // Backward runs from the last parameter to the first.
    for (auto s = flat.layout.segments.rbegin(); s != flat.layout.segments.rend(); ++s) {
      for (const shard::Range& r : flat.owned) {
        for (std::int64_t e = std::max(r.first, s->offset); e < std::min(r.last, s->offset + s->numel); ++e) {
          if (std::isfinite(grads[static_cast<std::size_t>(e)])) continue;
          throw TrainError(fmt::format(
              "step {}: the gradient norm is {}: the gradient of {} (piece {}) has {} at "
              "element {}",
              batch + 1, text::number(norm), flat.parameters[static_cast<std::size_t>(s->tensor)]->name,
              s->piece, text::number(grads[static_cast<std::size_t>(e)]), e - s->offset));
        }
      }
    }
  });
  throw TrainError(fmt::format("step {}: the gradient norm is {}: the sum of finite squares overflows",
                               batch + 1, text::number(norm)));
}

}  // namespace shoal::train
