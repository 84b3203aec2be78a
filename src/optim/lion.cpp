// Lion (Chen et al. 2023, algorithm 2): the sign of an average, which is kept once.
#include "optim/flat.hpp"
#include "shoal/ops/optimizer.hpp"

namespace shoal::optim {
namespace {

class Lion final : public FlatOptimizer {
 public:
  Lion(const OptimizerConfig& config, parallel::FlatParameters& flat, const Stream& stream)
      : FlatOptimizer(config, flat, stream), m_(owned_zeros(stream)) {
    named_ = {{"momentum", m_}};
  }
  Needs needs() const override { return Needs::elements; }

  void step(const Stream& stream, const UpdateStep& u) override {
    count_update();
    for_each_slice(stream, u, [&](const Slice& slice) {
      const Settings& c = slice.settings;
      const double lr = u.lr * c.lr_scale;
      ops::lion_step(
          stream, slice.p, slice.grad, slice.of(m_),
          {static_cast<float>(c.beta1), static_cast<float>(1 - c.beta1), static_cast<float>(c.beta2),
           static_cast<float>(1 - c.beta2), static_cast<float>(1 - lr * c.weight_decay),
           static_cast<float>(lr), static_cast<float>(u.grad_scale)},
          slice.narrow);
    });
  }

 private:
  Tensor m_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lion(const OptimizerConfig& c, parallel::FlatParameters& flat,
                                     const Stream& s) {
  return std::make_unique<Lion>(c, flat, s);
}

}  // namespace shoal::optim
