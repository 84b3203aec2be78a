// Muon (Jordan et al. 2024): the momentum of a hidden matrix, its singular values brought near 1 by Newton-Schulz steps
// X <- a X + (b A + c A^2) X, A = X X^T; AdamW for all else. A matrix is needed whole: directions are gathered, ranks
// share the matrices out and broadcast what they made, so that every layout computes each of them in the same way.
#include <algorithm>
#include <cmath>

#include "optim/flat.hpp"
#include "optim/logical.hpp"
#include "shoal/ops/dropout.hpp"
#include "shoal/ops/matmul.hpp"
#include "shoal/ops/optimizer.hpp"

namespace shoal::optim {
namespace {

constexpr float a = 3.4445f, b = -4.7750f,
                c = 2.0315f;  // Jordan's: steepest at 0, in [0.7, 1.2] after five steps

// to = factor * from
void scaled_copy(const Stream& stream, const Tensor& from, float factor, const Tensor& to) {
  copy(stream, from, to);
  ops::scale_(stream, to, factor);
}

// x [rows, cols], over itself; `x_flat` the same with its padding.
void orthogonalize(const Stream& stream, const Tensor& x, const Tensor& x_flat, std::int64_t steps) {
  const bool tall = x.dim(0) > x.dim(1);  // the smaller square is computed
  const std::int64_t n = std::min(x.dim(0), x.dim(1));
  const double norm = std::sqrt(sum_of_squares(stream, x_flat));
  ops::scale_(stream, x, static_cast<float>(1 / (norm + 1e-7)));
  const Tensor square = Tensor::empty({n, n}, DType::f32, stream),
               scaled = Tensor::empty({n, n}, DType::f32, stream),
               polynomial = Tensor::empty({n, n}, DType::f32, stream),
               old = Tensor::empty(x.shape(), DType::f32, stream);
  for (std::int64_t i = 0; i < steps; ++i) {
    ops::matmul(stream, x, x, square, {.transpose_a = tall, .transpose_b = !tall});
    scaled_copy(stream, square, c, scaled);
    scaled_copy(stream, square, b, polynomial);
    ops::matmul(stream, scaled, square, polynomial, {.accumulate = true});
    copy(stream, x, old);
    ops::scale_(stream, x, a);
    if (tall)
      ops::matmul(stream, old, polynomial, x, {.accumulate = true});
    else
      ops::matmul(stream, polynomial, old, x, {.accumulate = true});
  }
}

class Muon final : public FlatOptimizer {
 public:
  Muon(const OptimizerConfig& config, parallel::FlatParameters& flat, const Stream& stream)
      : FlatOptimizer(config, flat, stream), logical_(flat, tensors_) {
    std::int64_t matrices = 0, others = 0;
    for (Run& run : runs()) {
      std::int64_t& at = run.settings.matrix ? matrices : others;
      run.state = at;
      at += run.elements.size();
    }
    momentum_ = Tensor::zeros({matrices}, DType::f32, stream);
    m_ = Tensor::zeros({others}, DType::f32, stream);
    v_ = Tensor::zeros({others}, DType::f32, stream);
    named_ = {{"m", m_}, {"v", v_}, {"momentum", momentum_}};
  }
  Needs needs() const override { return Needs::matrix; }

  std::vector<LogicalState> logical_state() override {
    std::vector<LogicalState> all;
    const std::vector<shard::Range> whole = whole_tensors();
    for (std::size_t l = 0; l < whole.size(); ++l)
      for (const auto& [kind, t] : named_) {
        if ((kind == "momentum") != tensors_[l].settings.matrix) continue;
        const std::int64_t at = whole[l].size() > 0 ? state_place(whole[l].first) : 0;
        all.push_back({static_cast<std::int64_t>(l), kind, t.slice(at, at + whole[l].size())});
      }
    add_masters(all);
    return all;
  }

  void step(const Stream& stream, const UpdateStep& u) override {
    const double t = count_update();
    for_each_slice(stream, u, [&](const Slice& s) {
      s.settings.matrix ? direction(stream, u, s) : adamw(stream, u, s, t);
    });
    flat_.gather_grads(stream);
    orthogonalize_all(stream);
    for_each_slice(stream, u, [&](const Slice& s) {
      if (!s.settings.matrix) return;
      const double lr = u.lr * s.settings.lr_scale;
      ops::scaled_step(stream, s.p, s.grad, static_cast<float>(1 - lr * s.settings.weight_decay),
                       static_cast<float>(lr), s.narrow);
    });
  }

 private:
  void direction(const Stream& stream, const UpdateStep& u, const Slice& s) {
    ops::momentum_direction(stream, s.grad, s.of(momentum_), static_cast<float>(s.settings.momentum),
                            static_cast<float>(1 - s.settings.momentum), static_cast<float>(u.grad_scale),
                            /*nesterov=*/true);
  }

  void adamw(const Stream& stream, const UpdateStep& u, const Slice& slice, double t) {
    const Settings& g = slice.settings;
    const double lr = u.lr * g.lr_scale;
    ops::AdamWStep s = adam_scalars(g, t, lr, u.grad_scale);
    s.decay = static_cast<float>(1 - lr * g.weight_decay);
    ops::adamw_step(stream, slice.p, slice.grad, slice.of(m_), slice.of(v_), s, slice.narrow);
  }

  double scale_of(const Shape& s) const {
    const auto rows = static_cast<double>(s[0]), cols = static_cast<double>(s[1]);
    return config_.muon_scale == "original" ? std::sqrt(std::max(1.0, rows / cols))
                                            : 0.2 * std::sqrt(std::max(rows, cols));
  }

  void orthogonalize_all(const Stream& stream) {
    const int ranks = flat_.comm->size();
    int turn = 0;
    for (std::int64_t l = 0; l < logical_.count(); ++l) {
      if (!tensors_[static_cast<std::size_t>(l)].settings.matrix) continue;
      const Shape& shape = logical_.shape(l);
      const Tensor padded = logical_.gather(stream, l, flat_.grads),
                   x = padded.slice(0, shape.numel()).view(shape);
      const int owner = turn++ % ranks;
      if (flat_.comm->rank() == owner) {
        orthogonalize(stream, x, padded, config_.newton_schulz_steps);
        ops::scale_(stream, x, static_cast<float>(scale_of(shape)));
      }
      if (ranks > 1) flat_.comm->broadcast_async(x, owner, stream).synchronize();
      logical_.scatter(stream, l, padded, flat_.grads);
    }
  }

  LogicalTensors logical_;
  Tensor momentum_, m_, v_;
};

}  // namespace

std::unique_ptr<Optimizer> make_muon(const OptimizerConfig& config, parallel::FlatParameters& flat,
                                     const Stream& s) {
  return std::make_unique<Muon>(config, flat, s);
}

std::int64_t muon_state_elements(const std::vector<Run>& runs) {
  std::int64_t n = 0;
  for (const Run& run : runs) n += run.elements.size() * (run.settings.matrix ? 1 : 2);
  return n;
}

}  // namespace shoal::optim
