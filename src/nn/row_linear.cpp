#include <fmt/format.h>

#include "nn/parameter.hpp"
#include "shoal/core/error.hpp"
#include "shoal/nn/linear.hpp"
#include "shoal/ops/matmul.hpp"

namespace shoal::nn {

Tensor token_shard(const Tensor& t, std::int64_t shard, std::int64_t shards) {
  const std::int64_t rows = t.dim(0);
  if (rows % shards != 0)
    throw ShapeError(
        fmt::format("the {} tokens of a microbatch do not divide into {} token shards (one for each "
                    "tensor piece)",
                    rows, shards));
  return t.slice(shard * (rows / shards), (shard + 1) * (rows / shards));
}

RowLinear::RowLinear(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t pieces,
                     bool bias, std::int64_t token_shards)
    : weight_(make_parameter(name + ".weight", ParameterKind::matrix,
                             shard::Placement::columns(name + ".weight", {out, in}, pieces),
                             {pieces, out, in / pieces})) {
  if (bias)
    bias_ = make_parameter(name + ".bias", ParameterKind::bias,
                           shard::Placement::whole(name + ".bias", {out}), {1, out}, token_shards);
}

std::vector<Parameter*> RowLinear::parameters() {
  return bias_ ? std::vector<Parameter*>{&weight_, &*bias_} : std::vector<Parameter*>{&weight_};
}

Tensor RowLinear::forward(const Tensor& x, const Tensor& residual, const ops::Dropout& dropout,
                          const Microbatch& mb) const {
  const std::int64_t tokens = x.dim(1);
  const Tensor terms = mb.empty({pieces(), tokens, outputs()});
  ops::linear_forward(mb.stream, x, weight_.value, {}, terms);
  // The sum and the bias are FP32; z + bias is rounded to the activations' type by residual_forward (R7).
  const bool narrow = mb.dtype != DType::f32;
  const Tensor z = pieces() == 1 || narrow ? terms.select(0) : mb.empty({tokens, outputs()});
  if (pieces() > 1) ops::tree_sum(mb.stream, terms, z);
  Tensor y = narrow ? mb.activation({tokens, outputs()}) : z;
  const Tensor bias = bias_ ? bias_->value.select(0) : Tensor();
  ops::residual_forward(mb.stream, residual, z, bias, dropout, mb.seq, y);
  return y;
}

Tensor RowLinear::backward_input(const Tensor& dz, const Microbatch& mb) const {
  Tensor dx = mb.activation({pieces(), dz.dim(0), piece_width()});
  ops::linear_backward_input(mb.stream, dz, weight_.value, dx);
  return dx;
}

void RowLinear::backward_weight(const Tensor& x, const Tensor& dz, const Microbatch& mb) {
  if (bias_) {
    for (std::int64_t s = 0; s < bias_->parts; ++s) {
      const Tensor shard = token_shard(dz, s, bias_->parts);
      ops::bias_backward(mb.stream, shard.view({1, shard.dim(0), outputs()}), bias_->grad[s], mb.accumulate);
      mb.ready(*bias_, s);
    }
  }
  ops::linear_backward_weight(mb.stream, x, dz, weight_.grad[0], mb.accumulate);
  mb.ready(weight_);
}

void RowLinear::count_forward(MemoryMeter& meter, std::int64_t tokens) const {
  meter.take(pieces() * tokens * outputs());
  if (pieces() == 1 && meter.activations() == DType::f32) return;
  meter.take_activation(tokens * outputs());
  meter.give(pieces() * tokens * outputs());
}

}  // namespace shoal::nn
