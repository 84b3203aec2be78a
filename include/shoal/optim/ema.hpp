// An exponential moving average of the weights (Polyak, Juditsky 1992, in the form used today).
#pragma once
#include "shoal/optim/optimizer.hpp"

namespace shoal::optim {

// f32 copies of the owned ranges: average = decay * average + (1 - decay) * value after every applied update, starting
// from the values it is made with.
class WeightAverage {
 public:
  // 0 < decay < 1, else ConfigError.
  WeightAverage(double decay, const Optimizer& optimizer, const parallel::FlatParameters& flat,
                const Stream& stream);
  void update(const Optimizer& optimizer, const Stream& stream);
  // Puts it where the gradients are (which are lost), whole on every rank. Collective where partitioned.
  void to_gradients(parallel::FlatParameters& flat, const Stream& stream) const;
  const Tensor& owned() const { return average_; }  // f32 [owned elements], for checkpoints

 private:
  double decay_;
  Tensor average_;
};

}  // namespace shoal::optim
