#include "shoal/optim/ema.hpp"

#include <fmt/format.h>

#include "shoal/core/error.hpp"
#include "shoal/ops/optimizer.hpp"

namespace shoal::optim {

WeightAverage::WeightAverage(double decay, const Optimizer& optimizer, const parallel::FlatParameters& flat,
                             const Stream& stream)
    : decay_(decay) {
  if (!(decay > 0 && decay < 1))
    throw ConfigError(fmt::format("ema.decay = {}: expected above 0 and below 1", decay));
  std::int64_t owned = 0;
  for (const shard::Range& r : flat.owned) owned += r.size();
  average_ = Tensor::empty({owned}, DType::f32, stream);
  copy(stream, optimizer.owned_values(stream), average_);
}

void WeightAverage::update(const Optimizer& optimizer, const Stream& stream) {
  ops::average_step(stream, average_, optimizer.owned_values(stream), static_cast<float>(decay_),
                    static_cast<float>(1 - decay_));
}

void WeightAverage::to_gradients(parallel::FlatParameters& flat, const Stream& stream) const {
  std::int64_t at = 0;
  for (const shard::Range& r : flat.owned) {
    copy(stream, average_.slice(at, at + r.size()), flat.grads.slice(r.first, r.last));
    at += r.size();
  }
  flat.gather_grads(stream);
}

}  // namespace shoal::optim
