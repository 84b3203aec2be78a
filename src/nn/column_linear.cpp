#include "nn/parameter.hpp"
#include "shoal/nn/linear.hpp"
#include "shoal/ops/matmul.hpp"

namespace shoal::nn {

ColumnLinear::ColumnLinear(const std::string& name, const std::vector<LinearOutput>& outputs, std::int64_t in,
                           std::int64_t pieces, bool bias) {
  std::vector<shard::LogicalTensor> weights, biases;
  std::int64_t out = 0;
  for (const LinearOutput& o : outputs) {
    weights.push_back({o.name + ".weight", {o.out, in}});
    biases.push_back({o.name + ".bias", {o.out}});
    out += o.out;
  }
  weight_ =
      make_parameter(name + ".weight", ParameterKind::matrix,
                     shard::Placement::fused_rows(std::move(weights), pieces), {pieces, out / pieces, in});
  if (bias)
    bias_ = make_parameter(name + ".bias", ParameterKind::bias,
                           shard::Placement::fused_rows(std::move(biases), pieces), {pieces, out / pieces});
}

std::vector<Parameter*> ColumnLinear::parameters() {
  return bias_ ? std::vector<Parameter*>{&weight_, &*bias_} : std::vector<Parameter*>{&weight_};
}

Tensor ColumnLinear::forward(const Tensor& x, const Microbatch& mb) const {
  Tensor y = mb.activation({pieces(), x.dim(0), piece_width()});
  ops::linear_forward(mb.stream, x, weight_.value, bias(), y);
  return y;
}

Tensor ColumnLinear::backward_input_terms(const Tensor& dy, const Microbatch& mb) const {
  Tensor terms = mb.empty({pieces(), dy.dim(1), inputs()});
  ops::linear_backward_input(mb.stream, dy, weight_.value, terms);
  return terms;
}

Tensor ColumnLinear::backward_input(const Tensor& dy, const Microbatch& mb) const {
  if (pieces() == 1) {  // rounded once by the product itself
    Tensor dx = mb.activation({dy.dim(1), inputs()});
    ops::linear_backward_input(mb.stream, dy, weight_.value, dx);
    return dx;
  }
  const Tensor terms = backward_input_terms(dy, mb);
  Tensor dx = mb.activation({dy.dim(1), inputs()});
  ops::tree_sum(mb.stream, terms, dx);
  return dx;
}

void ColumnLinear::backward_weight(const Tensor& x, const Tensor& dy, const Microbatch& mb) {
  if (bias_) {
    ops::bias_backward(mb.stream, dy, bias_->grad[0], mb.accumulate);
    mb.ready(*bias_);
  }
  ops::linear_backward_weight(mb.stream, x, dy, weight_.grad[0], mb.accumulate);
  mb.ready(weight_);
}

void ColumnLinear::count_backward_input(MemoryMeter& meter, std::int64_t tokens) const {
  if (pieces() > 1) meter.take(pieces() * tokens * inputs());
  meter.take_activation(tokens * inputs());
  if (pieces() > 1) meter.give(pieces() * tokens * inputs());
}

}  // namespace shoal::nn
