// What is saved, in order: x, the norm's statistics, h = norm(x), the projections (after rotation), o, log-sum-exp.
// backward_input leaves in place of it: h, the projections' gradients, o, dz.
#include "shoal/nn/attention.hpp"

#include <cmath>
#include <numeric>

namespace shoal::nn {

AttentionBlock::AttentionBlock(const AttentionConfig& config, std::unique_ptr<Norm> norm,
                               std::shared_ptr<Rotary> rotary)
    : config_(config),
      norm_(std::move(norm)),
      rotary_(std::move(rotary)),
      qkv_(config),
      out_(config.name + "." + config.out, config.hidden, config.hidden,
           std::gcd(config.tensor, config.heads), config.bias, config.tensor) {}

std::vector<Parameter*> AttentionBlock::parameters() {
  std::vector<Parameter*> all = norm_->parameters();
  for (Parameter* p : qkv_.parameters()) all.push_back(p);
  for (Parameter* p : out_.parameters()) all.push_back(p);
  return all;
}

ops::AttentionShape AttentionBlock::shape(std::int64_t samples, std::int64_t seq) const {
  const std::int64_t head_dim = config_.hidden / config_.heads;
  return {samples,          seq,      config_.heads,
          config_.kv_heads, head_dim, static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)))};
}

ops::HeadsView AttentionBlock::out_heads(const Tensor& o) const {
  return {o, 0, config_.heads / out_.pieces()};
}

Tensor AttentionBlock::forward(const Tensor& x, Saved& saved, const Microbatch& mb) {
  std::vector<Tensor>& t = saved.tensors;
  t.push_back(x);
  const Tensor h = norm_->forward(x, t, mb);
  t.push_back(h);
  const std::size_t first = t.size();
  qkv_.forward(h, t, mb);
  const QkvProjection::Heads heads = qkv_.heads(&t[first]);
  if (rotary_) {
    rotary_->apply(heads.q, config_.heads, mb, /*backward=*/false);
    rotary_->apply(heads.k, config_.kv_heads, mb, /*backward=*/false);
  }
  mb.observe("activation", config_.name, fused_name(), t[first]);
  if (!qkv_.fused()) mb.observe("activation", config_.name, config_.kv.c_str(), t[first + 1]);
  const Tensor o = mb.activation({out_.pieces(), x.dim(0), out_.piece_width()});
  const Tensor lse = mb.empty({mb.samples, config_.heads, mb.seq});
  ops::attention_forward(mb.stream, shape(mb.samples, mb.seq), heads.q, heads.k, heads.v, out_heads(o), lse,
                         mb.dropout(config_.dropout, Purpose::dropout_attention, config_.layer));
  t.push_back(o);
  t.push_back(lse);
  mb.observe("activation", config_.name, "heads", o);
  Tensor y =
      out_.forward(o, x, mb.dropout(config_.dropout, Purpose::dropout_attention_out, config_.layer), mb);
  mb.observe("activation", config_.name, y);
  return y;
}

Tensor AttentionBlock::run_backward(Tensor dy, Saved& saved, const Microbatch& mb, bool weights) {
  const int stats = norm_->statistics(), projections = qkv_.activations();
  const std::size_t ih = 1 + stats, iqkv = ih + 1, io = iqkv + projections;
  const ops::Dropout dropout = mb.dropout(config_.dropout, Purpose::dropout_attention_out, config_.layer);
  Tensor dz = dy;
  if (dropout.p > 0) {
    dz = mb.activation(dy.shape());
    ops::dropout_backward(mb.stream, dy, dropout, mb.seq, dz);
  }
  Tensor o = saved.take(io), lse = saved.take(io + 1);
  if (weights) out_.backward_weight(o, dz, mb);
  Tensor d_o = out_.backward_input(dz, mb);
  mb.observe("gradient", config_.name, "heads", d_o);
  if (weights) dz = {};

  std::vector<Tensor> qkv(projections), d_qkv(projections);
  for (int i = 0; i < projections; ++i) {
    qkv[i] = saved.take(iqkv + i);
    d_qkv[i] = mb.activation(qkv[i].shape());
  }
  {
    const QkvProjection::Heads f = qkv_.heads(qkv.data()), d = qkv_.heads(d_qkv.data());
    ops::attention_backward(mb.stream, shape(mb.samples, mb.seq), f.q, f.k, f.v, out_heads(o), lse,
                            out_heads(d_o), d.q, d.k, d.v,
                            mb.dropout(config_.dropout, Purpose::dropout_attention, config_.layer));
    if (rotary_) {
      rotary_->apply(d.q, config_.heads, mb, /*backward=*/true);
      rotary_->apply(d.k, config_.kv_heads, mb, /*backward=*/true);
    }
  }
  qkv.clear();
  d_o = lse = {};
  if (weights) o = {};
  mb.observe("gradient", config_.name, fused_name(), d_qkv[0]);
  if (!qkv_.fused()) mb.observe("gradient", config_.name, config_.kv.c_str(), d_qkv[1]);

  Tensor h = saved.take(ih);
  if (weights) {
    qkv_.backward_weight(h, d_qkv.data(), mb);
    h = {};
  }
  Tensor dx = qkv_.backward_input(d_qkv.data(), mb);
  if (weights) d_qkv.clear();
  norm_->backward(dx, saved.tensors[0], &saved.tensors[1], dy, mb);
  saved.tensors.clear();
  if (!weights) {
    saved.tensors.push_back(std::move(h));
    for (Tensor& t : d_qkv) saved.tensors.push_back(std::move(t));
    saved.tensors.push_back(std::move(o));
    saved.tensors.push_back(std::move(dz));
  }
  mb.observe("gradient", config_.name, dx);
  return dx;
}

Tensor AttentionBlock::backward(Tensor dy, Saved& saved, const Microbatch& mb) {
  return run_backward(std::move(dy), saved, mb, /*weights=*/true);
}

Tensor AttentionBlock::backward_input(Tensor dy, Saved& saved, const Microbatch& mb) {
  return run_backward(std::move(dy), saved, mb, /*weights=*/false);
}

void AttentionBlock::backward_weight(Saved& saved, const Microbatch& mb) {
  const std::size_t io = 1 + qkv_.activations();
  out_.backward_weight(saved.take(io), saved.take(io + 1), mb);
  qkv_.backward_weight(saved.tensors[0], &saved.tensors[1], mb);
  saved.tensors.clear();
}

const char* AttentionBlock::fused_name() const {
  return qkv_.fused() ? config_.qkv.c_str() : config_.q.c_str();
}

}  // namespace shoal::nn
