// What is saved, in order: x, the norm's statistics, h = norm(x), gu = gate_up(h), a = swiglu(gu).
// backward_input leaves in place of it: h, dgu (in gu's memory), a, dy.
#include <numeric>

#include "shoal/nn/mlp.hpp"
#include "shoal/ops/activation.hpp"

namespace shoal::nn {

SwigluMlpBlock::SwigluMlpBlock(const MlpConfig& config, std::unique_ptr<Norm> norm)
    : config_(config),
      norm_(std::move(norm)),
      gate_up_(
          config.name + ".gate_up_proj",
          {{config.name + ".gate_proj", config.ffn_hidden}, {config.name + ".up_proj", config.ffn_hidden}},
          config.hidden, std::gcd(config.tensor, config.ffn_hidden), /*bias=*/false),
      down_(config.name + ".down_proj", config.ffn_hidden, config.hidden, gate_up_.pieces(), /*bias=*/false,
            config.tensor) {}

std::vector<Parameter*> SwigluMlpBlock::parameters() {
  std::vector<Parameter*> all = norm_->parameters();
  for (Parameter* p : gate_up_.parameters()) all.push_back(p);
  for (Parameter* p : down_.parameters()) all.push_back(p);
  return all;
}

Tensor SwigluMlpBlock::forward(const Tensor& x, Saved& saved, const Microbatch& mb) {
  std::vector<Tensor>& t = saved.tensors;
  t.push_back(x);
  const Tensor h = norm_->forward(x, t, mb);
  const Tensor gu = gate_up_.forward(h, mb);
  mb.observe("activation", config_.name, "gate_up_proj", gu);
  const Tensor a = mb.activation({down_.pieces(), x.dim(0), down_.piece_width()});
  ops::swiglu_forward(mb.stream, gu, a);
  mb.observe("activation", config_.name, "swiglu", a);
  for (const Tensor& saved_tensor : {h, gu, a}) t.push_back(saved_tensor);
  Tensor y = down_.forward(a, x, mb.dropout(config_.dropout, Purpose::dropout_ffn_out, config_.layer), mb);
  mb.observe("activation", config_.name, y);
  return y;
}

Tensor SwigluMlpBlock::run_backward(Tensor dy, Saved& saved, const Microbatch& mb, bool weights) {
  const std::size_t ih = 1 + norm_->statistics();
  const ops::Dropout dropout = mb.dropout(config_.dropout, Purpose::dropout_ffn_out, config_.layer);
  Tensor dz = dy;
  if (dropout.p > 0) {
    dz = mb.activation(dy.shape());
    ops::dropout_backward(mb.stream, dy, dropout, mb.seq, dz);
  }
  Tensor h = saved.take(ih), gu = saved.take(ih + 1), a = saved.take(ih + 2);
  if (weights) {
    down_.backward_weight(a, dz, mb);
    a = {};
  }
  Tensor da = down_.backward_input(dz, mb);
  if (weights) dz = {};
  mb.observe("gradient", config_.name, "swiglu", da);
  ops::swiglu_backward(mb.stream, da, gu, gu);
  da = {};
  mb.observe("gradient", config_.name, "gate_up_proj", gu);
  if (weights) {
    gate_up_.backward_weight(h, gu, mb);
    h = {};
  }
  Tensor dx = gate_up_.backward_input(gu, mb);
  if (weights) gu = {};
  norm_->backward(dx, saved.tensors[0], &saved.tensors[1], dy, mb);
  saved.tensors.clear();
  if (!weights)
    for (Tensor* t : {&h, &gu, &a, &dz}) saved.tensors.push_back(std::move(*t));
  mb.observe("gradient", config_.name, dx);
  return dx;
}

Tensor SwigluMlpBlock::backward(Tensor dy, Saved& saved, const Microbatch& mb) {
  return run_backward(std::move(dy), saved, mb, /*weights=*/true);
}

Tensor SwigluMlpBlock::backward_input(Tensor dy, Saved& saved, const Microbatch& mb) {
  return run_backward(std::move(dy), saved, mb, /*weights=*/false);
}

void SwigluMlpBlock::backward_weight(Saved& saved, const Microbatch& mb) {
  down_.backward_weight(saved.take(2), saved.take(3), mb);
  gate_up_.backward_weight(saved.take(0), saved.take(1), mb);
  saved.tensors.clear();
}

std::int64_t SwigluMlpBlock::saved_bytes(std::int64_t samples, std::int64_t seq, DType activations) const {
  MemoryMeter m(activations);
  const std::int64_t tokens = samples * seq;
  for (int i = 0; i < 2; ++i) m.take_activation(tokens * config_.hidden);  // x, h
  for (int i = 0; i < norm_->statistics(); ++i) m.take(tokens);
  m.take_activation(tokens * 2 * config_.ffn_hidden);  // gu
  m.take_activation(tokens * config_.ffn_hidden);      // a
  return m.in_use();
}

void SwigluMlpBlock::count_forward(MemoryMeter& m, std::int64_t samples, std::int64_t seq) const {
  const std::int64_t tokens = samples * seq;
  m.take_activation(tokens * config_.hidden);
  for (int i = 0; i < norm_->statistics(); ++i) m.take(tokens);
  m.take_activation(tokens * 2 * config_.ffn_hidden);
  m.take_activation(tokens * config_.ffn_hidden);
  down_.count_forward(m, tokens);
}

void SwigluMlpBlock::count_backward(MemoryMeter& m, std::int64_t samples, std::int64_t seq) const {
  const std::int64_t tokens = samples * seq, width = tokens * config_.hidden,
                     inner = tokens * config_.ffn_hidden;
  if (config_.dropout > 0) m.take_activation(width);  // dz
  m.give_activation(inner);                           // a
  m.take_activation(inner);                           // da
  if (config_.dropout > 0) m.give_activation(width);
  m.give_activation(inner);  // da
  m.give_activation(width);  // h
  gate_up_.count_backward_input(m, tokens);
  m.give_activation(2 * inner);  // gu
  m.scratch(norm_->backward_scratch(tokens));
  for (int i = 0; i < norm_->statistics(); ++i) m.give(tokens);
  m.give_activation(width);  // x
  m.give_activation(width);  // dy
}

}  // namespace shoal::nn
