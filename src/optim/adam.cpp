// AdamW (Loshchilov, Hutter 2019, algorithm 2) and Adam (Kingma, Ba 2015) with L2 decay in the gradient.
#include <cmath>

#include "optim/flat.hpp"
#include "shoal/ops/optimizer.hpp"

namespace shoal::optim {
namespace {

class Adam final : public FlatOptimizer {
 public:
  Adam(const OptimizerConfig& config, parallel::FlatParameters& flat, const Stream& stream)
      : FlatOptimizer(config, flat, stream),
        coupled_(config.type == "adam"),
        m_(owned_zeros(stream)),
        v_(owned_zeros(stream)) {
    named_ = {{"m", m_}, {"v", v_}};
  }
  Needs needs() const override { return Needs::elements; }

  void step(const Stream& stream, const UpdateStep& u) override {
    const double t = count_update();
    for_each_slice(stream, u, [&](const Slice& slice) {
      const Settings& c = slice.settings;
      const double lr = u.lr * c.lr_scale;
      ops::AdamWStep s = adam_scalars(c, t, lr, u.grad_scale);
      if (coupled_)
        s.weight_decay = static_cast<float>(c.weight_decay);
      else
        s.decay = static_cast<float>(1 - lr * c.weight_decay);
      ops::adamw_step(stream, slice.p, slice.grad, slice.of(m_), slice.of(v_), s, slice.narrow);
    });
  }

 private:
  bool coupled_;
  Tensor m_, v_;
};

}  // namespace

ops::AdamWStep adam_scalars(const Settings& c, double t, double lr, double grad_scale) {
  ops::AdamWStep s{};
  s.beta1 = static_cast<float>(c.beta1);
  s.one_minus_beta1 = static_cast<float>(1 - c.beta1);
  s.beta2 = static_cast<float>(c.beta2);
  s.one_minus_beta2 = static_cast<float>(1 - c.beta2);
  s.decay = 1.0f;
  s.step_size = static_cast<float>(lr / (1 - std::pow(c.beta1, t)));
  s.inv_sqrt_bias2 = static_cast<float>(1 / std::sqrt(1 - std::pow(c.beta2, t)));
  s.eps = static_cast<float>(c.eps);
  s.grad_scale = static_cast<float>(grad_scale);
  return s;
}

std::unique_ptr<Optimizer> make_adam(const OptimizerConfig& c, parallel::FlatParameters& flat,
                                     const Stream& s) {
  return std::make_unique<Adam>(c, flat, s);
}

}  // namespace shoal::optim
