// What is saved, in order: x, the norm's statistics, h = norm(x), slope = gelu'(fc(h)), a = gelu(fc(h)).
// backward_input leaves in place of it: h, du, a, dz.
#include <numeric>

#include "shoal/nn/mlp.hpp"
#include "shoal/ops/matmul.hpp"

namespace shoal::nn {

GeluMlpBlock::GeluMlpBlock(const MlpConfig& config, std::unique_ptr<Norm> norm)
    : config_(config),
      norm_(std::move(norm)),
      fc_(config.name + ".fc", {{config.name + ".fc", config.ffn_hidden}}, config.hidden,
          std::gcd(config.tensor, config.ffn_hidden), /*bias=*/true),
      proj_(config.name + ".proj", config.ffn_hidden, config.hidden, fc_.pieces(), /*bias=*/true,
            config.tensor) {}

std::vector<Parameter*> GeluMlpBlock::parameters() {
  std::vector<Parameter*> all = norm_->parameters();
  for (Parameter* p : fc_.parameters()) all.push_back(p);
  for (Parameter* p : proj_.parameters()) all.push_back(p);
  return all;
}

Tensor GeluMlpBlock::forward(const Tensor& x, Saved& saved, const Microbatch& mb) {
  std::vector<Tensor>& t = saved.tensors;
  t.push_back(x);
  const Tensor h = norm_->forward(x, t, mb);
  const Tensor slope = mb.activation({fc_.pieces(), x.dim(0), fc_.piece_width()}),
               a = mb.activation(slope.shape());
  ops::linear_gelu_forward(mb.stream, h, fc_.weight(), fc_.bias(), slope, a);
  mb.observe("activation", config_.name, "gelu_slope", slope);
  mb.observe("activation", config_.name, "gelu", a);
  for (const Tensor& saved_tensor : {h, slope, a}) t.push_back(saved_tensor);
  Tensor y = proj_.forward(a, x, mb.dropout(config_.dropout, Purpose::dropout_ffn_out, config_.layer), mb);
  mb.observe("activation", config_.name, y);
  return y;
}

Tensor GeluMlpBlock::run_backward(Tensor dy, Saved& saved, const Microbatch& mb, bool weights) {
  const std::size_t ih = 1 + norm_->statistics();
  const ops::Dropout dropout = mb.dropout(config_.dropout, Purpose::dropout_ffn_out, config_.layer);
  Tensor dz = dy;
  if (dropout.p > 0) {
    dz = mb.activation(dy.shape());
    ops::dropout_backward(mb.stream, dy, dropout, mb.seq, dz);
  }
  Tensor h = saved.take(ih), slope = saved.take(ih + 1), a = saved.take(ih + 2);
  if (weights) {
    proj_.backward_weight(a, dz, mb);
    a = {};
  }
  Tensor du = mb.activation(slope.shape());
  ops::linear_gelu_backward_input(mb.stream, dz, proj_.weight(), slope, du);
  slope = {};
  mb.observe("gradient", config_.name, "fc", du);
  if (weights) {
    dz = {};
    fc_.backward_weight(h, du, mb);
    h = {};
  }
  Tensor dx = fc_.backward_input(du, mb);
  if (weights) du = {};
  norm_->backward(dx, saved.tensors[0], &saved.tensors[1], dy, mb);
  saved.tensors.clear();
  if (!weights)
    for (Tensor* t : {&h, &du, &a, &dz}) saved.tensors.push_back(std::move(*t));
  mb.observe("gradient", config_.name, dx);
  return dx;
}

Tensor GeluMlpBlock::backward(Tensor dy, Saved& saved, const Microbatch& mb) {
  return run_backward(std::move(dy), saved, mb, /*weights=*/true);
}

Tensor GeluMlpBlock::backward_input(Tensor dy, Saved& saved, const Microbatch& mb) {
  return run_backward(std::move(dy), saved, mb, /*weights=*/false);
}

void GeluMlpBlock::backward_weight(Saved& saved, const Microbatch& mb) {
  proj_.backward_weight(saved.take(2), saved.take(3), mb);
  fc_.backward_weight(saved.take(0), saved.take(1), mb);
  saved.tensors.clear();
}

std::int64_t GeluMlpBlock::saved_bytes(std::int64_t samples, std::int64_t seq, DType activations) const {
  MemoryMeter m(activations);
  const std::int64_t tokens = samples * seq;
  for (int i = 0; i < 2; ++i) m.take_activation(tokens * config_.hidden);  // x, h
  for (int i = 0; i < norm_->statistics(); ++i) m.take(tokens);
  for (int i = 0; i < 2; ++i) m.take_activation(tokens * config_.ffn_hidden);  // u, a
  return m.in_use();
}

void GeluMlpBlock::count_forward(MemoryMeter& m, std::int64_t samples, std::int64_t seq) const {
  const std::int64_t tokens = samples * seq;
  m.take_activation(tokens * config_.hidden);
  for (int i = 0; i < norm_->statistics(); ++i) m.take(tokens);
  for (int i = 0; i < 2; ++i) m.take_activation(tokens * config_.ffn_hidden);
  proj_.count_forward(m, tokens);
}

void GeluMlpBlock::count_backward(MemoryMeter& m, std::int64_t samples, std::int64_t seq) const {
  const std::int64_t tokens = samples * seq, width = tokens * config_.hidden,
                     inner = tokens * config_.ffn_hidden;
  if (config_.dropout > 0) m.take_activation(width);  // dz
  m.give_activation(inner);                           // a
  m.take_activation(inner);                           // du
  m.give_activation(inner);                           // u
  if (config_.dropout > 0) m.give_activation(width);
  m.give_activation(width);  // h
  fc_.count_backward_input(m, tokens);
  m.give_activation(inner);  // du
  m.scratch(norm_->backward_scratch(tokens));
  for (int i = 0; i < norm_->statistics(); ++i) m.give(tokens);
  m.give_activation(width);  // x
  m.give_activation(width);  // dy
}

}  // namespace shoal::nn
