// SGD, with momentum (Sutskever et al. 2013, in PyTorch's form) and Nesterov's.
#include "optim/flat.hpp"
#include "shoal/ops/optimizer.hpp"

namespace shoal::optim {
namespace {

bool any_momentum(const std::vector<Logical>& tensors) {
  for (const Logical& t : tensors)
    if (t.settings.momentum > 0) return true;
  return false;
}

class Sgd final : public FlatOptimizer {
 public:
  Sgd(const OptimizerConfig& config, parallel::FlatParameters& flat, const Stream& stream)
      : FlatOptimizer(config, flat, stream) {
    if (!any_momentum(tensors_)) return;
    momentum_ = owned_zeros(stream);
    named_ = {{"momentum", momentum_}};
  }
  Needs needs() const override { return Needs::elements; }

  void step(const Stream& stream, const UpdateStep& u) override {
    ops::SgdStep s{};
    s.grad_scale = static_cast<float>(u.grad_scale);
    s.first = count_update() == 1;
    for_each_slice(stream, u, [&](const Slice& slice) {
      const Settings& c = slice.settings;
      s.lr = static_cast<float>(u.lr * c.lr_scale);
      s.momentum = static_cast<float>(c.momentum);
      s.nesterov = config_.nesterov && c.momentum > 0;
      s.weight_decay = static_cast<float>(c.weight_decay);
      ops::sgd_step(stream, slice.p, slice.grad, c.momentum > 0 ? slice.of(momentum_) : Tensor(), s,
                    slice.narrow);
    });
  }

 private:
  Tensor momentum_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerConfig& c, parallel::FlatParameters& flat,
                                    const Stream& s) {
  return std::make_unique<Sgd>(c, flat, s);
}

}  // namespace shoal::optim
