// What is saved, in order: x, the norm's statistics, h = norm(x), the logits' gradient.
#include <algorithm>

#include "nn/parameter.hpp"
#include "shoal/nn/embedding.hpp"
#include "shoal/ops/cross_entropy.hpp"
#include "shoal/ops/matmul.hpp"
#include "shoal/shard/split.hpp"

namespace shoal::nn {

LmHead::LmHead(const std::string& name, std::unique_ptr<Norm> norm, Parameter* tied, std::int64_t vocab,
               std::int64_t hidden, std::int64_t tensor)
    : name_(name), norm_(std::move(norm)), tied_(tied), vocab_(vocab), hidden_(hidden) {
  if (tied_) return;
  const std::int64_t padded = shard::round_up(vocab, tensor);
  own_ = make_parameter(name + ".weight", ParameterKind::head,
                        shard::Placement::rows(name + ".weight", {vocab, hidden}, tensor, padded),
                        {tensor, padded / tensor, hidden});
}

std::vector<Parameter*> LmHead::parameters() {
  std::vector<Parameter*> all = norm_->parameters();
  if (!tied_) all.push_back(&own_);
  return all;
}

Tensor LmHead::forward(const Tensor& x, const Tensor& targets, Saved& saved, const Microbatch& mb) {
  std::vector<Tensor>& t = saved.tensors;
  t.push_back(x);
  const Tensor h = norm_->forward(x, t, mb);
  const Tensor& w = weight().value;
  const Tensor logits = mb.activation({w.dim(0), x.dim(0), w.dim(1)});
  ops::linear_forward(mb.stream, h, w, {}, logits);
  mb.observe("activation", name_, logits);
  Tensor loss = mb.empty({x.dim(0)});
  ops::cross_entropy(mb.stream, logits, targets, vocab_, loss, logits, mb.loss_scale_over_count);
  mb.observe("activation", "loss", loss);
  t.push_back(h);
  t.push_back(logits);
  return loss;
}

Tensor LmHead::backward(Saved& saved, const Microbatch& mb) {
  const std::size_t ih = 1 + norm_->statistics();
  Tensor h = saved.take(ih), d = saved.take(ih + 1);
  mb.observe("gradient", name_, d);
  Parameter& w = tied_ ? *tied_ : own_;
  const std::int64_t part = tied_ ? 1 : 0, pieces = d.dim(0);
  ops::linear_backward_weight(mb.stream, h, d, w.grad[part], mb.accumulate);
  mb.ready(w, part);
  h = {};
  const std::int64_t tokens = d.dim(1);
  Tensor dx;
  if (pieces == 1) {
    dx = mb.activation({tokens, hidden_});
    ops::linear_backward_input(mb.stream, d, w.value, dx);
    d = {};
  } else {
    const Tensor terms = mb.empty({pieces, tokens, hidden_});
    ops::linear_backward_input(mb.stream, d, w.value, terms);
    d = {};
    dx = mb.activation({tokens, hidden_});
    ops::tree_sum(mb.stream, terms, dx);
  }
  norm_->backward(dx, saved.tensors[0], &saved.tensors[1], {}, mb);
  saved.tensors.clear();
  return dx;
}

Tensor LmHead::loss(const Tensor& x, const Tensor& targets, const Microbatch& mb) const {
  std::vector<Tensor> scratch;
  const Tensor h = norm_->forward(x, scratch, mb);
  const Tensor& w = weight().value;
  const Tensor logits = mb.activation({w.dim(0), x.dim(0), w.dim(1)});
  ops::linear_forward(mb.stream, h, w, {}, logits);
  Tensor loss = mb.empty({x.dim(0)});
  ops::cross_entropy(mb.stream, logits, targets, vocab_, loss, {}, 0.0f);
  return loss;
}

Tensor LmHead::logits(const Tensor& x, const Microbatch& mb) const {
  std::vector<Tensor> scratch;
  const Tensor h = norm_->forward(x, scratch, mb);
  const Tensor& w = weight().value;
  const std::int64_t pieces = w.dim(0), tokens = x.dim(0), width = w.dim(1);
  const Tensor logits = mb.empty({pieces, tokens, width});
  ops::linear_forward(mb.stream, h, w, {}, logits);
  if (pieces == 1) return logits.select(0);  // without padding: that is to a multiple of the pieces
  Tensor y = mb.empty({tokens, vocab_});
  for (std::int64_t p = 0; p < pieces; ++p) {  // columns of y, and those of the piece that are no padding
    const std::int64_t first = std::min(p * width, vocab_), n = std::min(width, vocab_ - first);
    if (n > 0 && tokens > 0)
      copy(mb.stream, logits.select(p).flat().view({tokens, n}, width),
           y.flat().slice(first, y.numel()).view({tokens, n}, vocab_));
  }
  return y;
}

std::int64_t LmHead::saved_bytes(std::int64_t tokens, DType activations) const {
  MemoryMeter m(activations);
  m.take_activation(tokens * hidden_);
  count_forward(m, tokens);
  m.give(tokens);  // the loss
  return m.in_use();
}

void LmHead::count_forward(MemoryMeter& m, std::int64_t tokens) const {
  m.take_activation(tokens * hidden_);
  for (int i = 0; i < norm_->statistics(); ++i) m.take(tokens);
  m.take_activation(tokens * weight().shape[0] * weight().shape[1]);
  m.take(tokens);
}

void LmHead::count_backward(MemoryMeter& m, std::int64_t tokens) const {
  const std::int64_t pieces = weight().shape[0], width = tokens * hidden_;
  m.give_activation(width);  // h
  pieces == 1 ? m.take_activation(width) : m.take(pieces * width);
  m.give_activation(tokens * pieces * weight().shape[1]);  // the logits' gradient
  if (pieces > 1) {
    m.take_activation(width);
    m.give(pieces * width);
  }
  m.scratch(norm_->backward_scratch(tokens));
  for (int i = 0; i < norm_->statistics(); ++i) m.give(tokens);
  m.give_activation(width);  // x
}

}  // namespace shoal::nn
