// Adafactor (Shazeer, Stern 2018, algorithm 4): of a matrix only the sums of its squares' rows and columns are kept.
// Both are of the whole logical matrix, so gradients are gathered and every rank keeps all of that small state.
#include <algorithm>
#include <cmath>

#include "optim/flat.hpp"
#include "optim/logical.hpp"
#include "shoal/ops/adafactor.hpp"
#include "shoal/ops/dropout.hpp"
#include "shoal/ops/optimizer.hpp"

namespace shoal::optim {
namespace {

constexpr double eps_square = 1e-30, eps_scale = 1e-3;  // the paper's epsilon 1 and 2

bool factored(const Shape& s) { return s.rank() == 2; }

// Root mean square of a padded tensor of n elements.
double rms(const Stream& stream, const Tensor& padded, std::int64_t n) {
  return n == 0 ? 0.0 : std::sqrt(sum_of_squares(stream, padded) / static_cast<double>(n));
}

class Adafactor final : public FlatOptimizer {
 public:
  Adafactor(const OptimizerConfig& config, parallel::FlatParameters& flat, const Stream& stream)
      : FlatOptimizer(config, flat, stream), logical_(flat, tensors_) {
    std::int64_t rows = 0, columns = 0, vectors = 0;
    for (std::int64_t l = 0; l < logical_.count(); ++l) {
      const Shape& s = logical_.shape(l);
      first_.push_back(factored(s) ? std::pair{rows, columns} : std::pair{vectors, std::int64_t{0}});
      if (factored(s)) {
        rows += s[0];
        columns += s[1];
      } else {
        vectors += s.numel();
      }
    }
    rows_ = Tensor::zeros({rows}, DType::f32, stream);
    columns_ = Tensor::zeros({columns}, DType::f32, stream);
    v_ = Tensor::zeros({vectors}, DType::f32, stream);
    named_ = {{"rows", rows_}, {"columns", columns_}, {"v", v_}};
  }
  Needs needs() const override { return Needs::rows; }

  std::vector<LogicalState> logical_state() override {
    std::vector<LogicalState> all;
    for (std::int64_t l = 0; l < logical_.count(); ++l) {
      const Shape& s = logical_.shape(l);
      const auto [at, column] = first_[static_cast<std::size_t>(l)];
      if (factored(s)) {
        all.push_back({l, "rows", rows_.slice(at, at + s[0])});
        all.push_back({l, "columns", columns_.slice(column, column + s[1])});
      } else {
        all.push_back({l, "v", v_.slice(at, at + s.numel())});
      }
    }
    add_masters(all);
    return all;
  }

  void step(const Stream& stream, const UpdateStep& u) override {
    const double t = count_update(), rest = std::pow(t, -config_.decay_rate);
    const ops::AdafactorStep s{static_cast<float>(u.grad_scale), 1 - rest, rest, eps_square};
    flat_.gather_grads(stream);
    for (std::int64_t l = 0; l < logical_.count(); ++l) {
      const Shape& shape = logical_.shape(l);
      const std::int64_t n = shape.numel();
      const Tensor padded = logical_.gather(stream, l, flat_.grads), g = padded.slice(0, n);
      const auto [at, column] = first_[static_cast<std::size_t>(l)];
      if (factored(shape))
        ops::adafactor_matrix(stream, g.view(shape), rows_.slice(at, at + shape[0]),
                              columns_.slice(column, column + shape[1]), s);
      else
        ops::adafactor_vector(stream, g, v_.slice(at, at + n), s);
      double factor = 1 / std::max(1.0, rms(stream, padded, n) / config_.clip_threshold);
      if (config_.scale_parameter)
        factor *= std::max(eps_scale, rms(stream, logical_.gather(stream, l, flat_.values), n));
      ops::scale_(stream, g, static_cast<float>(factor));
      logical_.scatter(stream, l, padded, flat_.grads);
    }
    for_each_slice(stream, u, [&](const Slice& slice) {
      const double lr = u.lr * slice.settings.lr_scale;
      ops::scaled_step(stream, slice.p, slice.grad, static_cast<float>(1 - lr * slice.settings.weight_decay),
                       static_cast<float>(lr), slice.narrow);
    });
  }

 private:
  LogicalTensors logical_;
  std::vector<std::pair<std::int64_t, std::int64_t>> first_;  // by tensor: in rows_ and columns_, or in v_
  Tensor rows_, columns_, v_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adafactor(const OptimizerConfig& c, parallel::FlatParameters& flat,
                                          const Stream& s) {
  return std::make_unique<Adafactor>(c, flat, s);
}

std::int64_t adafactor_state_elements(const std::vector<Logical>& tensors,
                                      const parallel::FlatParameters& flat) {
  const LogicalTensors logical(flat, tensors);
  std::int64_t n = 0;
  for (std::int64_t l = 0; l < logical.count(); ++l) {
    const Shape& s = logical.shape(l);
    n += factored(s) ? s[0] + s[1] : s.numel();
  }
  return n;
}

}  // namespace shoal::optim
