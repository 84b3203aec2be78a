// LAMB (You et al. 2020, algorithm 2, with phi(z) = z): Adam's direction of every logical tensor, decay included, is
// scaled to the tensor's own norm. Norms are of whole tensors, so the directions are gathered first.
#include <cmath>

#include "optim/flat.hpp"
#include "optim/logical.hpp"
#include "shoal/ops/dropout.hpp"
#include "shoal/ops/optimizer.hpp"

namespace shoal::optim {
namespace {

class Lamb final : public FlatOptimizer {
 public:
  Lamb(const OptimizerConfig& config, parallel::FlatParameters& flat, const Stream& stream)
      : FlatOptimizer(config, flat, stream),
        logical_(flat, tensors_),
        m_(owned_zeros(stream)),
        v_(owned_zeros(stream)) {
    named_ = {{"m", m_}, {"v", v_}};
  }
  Needs needs() const override { return Needs::norm; }

  void step(const Stream& stream, const UpdateStep& u) override {
    const double t = count_update();
    for_each_slice(stream, u, [&](const Slice& slice) {
      const Settings& c = slice.settings;
      ops::AdamWStep s = adam_scalars(c, t, 1.0, u.grad_scale);
      s.weight_decay = static_cast<float>(c.weight_decay);
      ops::adam_direction(stream, slice.p, slice.grad, slice.of(m_), slice.of(v_), s);
    });
    flat_.gather_grads(stream);
    for (std::int64_t l = 0; l < logical_.count(); ++l) {
      const double weight = sum_of_squares(stream, logical_.gather(stream, l, flat_.values));
      const Tensor direction = logical_.gather(stream, l, flat_.grads);
      const double norm = sum_of_squares(stream, direction);
      if (!(weight > 0) || !(norm > 0)) continue;  // the ratio is 1
      ops::scale_(stream, direction, static_cast<float>(std::sqrt(weight) / std::sqrt(norm)));
      logical_.scatter(stream, l, direction, flat_.grads);
    }
    for_each_slice(stream, u, [&](const Slice& slice) {
      ops::scaled_step(stream, slice.p, slice.grad, 1.0f, static_cast<float>(u.lr * slice.settings.lr_scale),
                       slice.narrow);
    });
  }

 private:
  LogicalTensors logical_;
  Tensor m_, v_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lamb(const OptimizerConfig& c, parallel::FlatParameters& flat,
                                     const Stream& s) {
  return std::make_unique<Lamb>(c, flat, s);
}

}  // namespace shoal::optim
