#include <numeric>

#include "shoal/nn/attention.hpp"
#include "shoal/ops/matmul.hpp"

namespace shoal::nn {
namespace {

bool fuse(const AttentionConfig& c) { return std::gcd(c.tensor, c.heads) == std::gcd(c.tensor, c.kv_heads); }

ColumnLinear make_q(const AttentionConfig& c) {
  const std::int64_t kv = c.hidden / c.heads * c.kv_heads, pieces = std::gcd(c.tensor, c.heads);
  const std::string dot = c.name + ".";
  if (!fuse(c)) return {dot + c.q, {{dot + c.q, c.hidden}}, c.hidden, pieces, c.bias};
  return {dot + c.qkv, {{dot + c.q, c.hidden}, {dot + c.k, kv}, {dot + c.v, kv}}, c.hidden, pieces, c.bias};
}

}  // namespace

QkvProjection::QkvProjection(const AttentionConfig& c)
    : q_width_(c.hidden / std::gcd(c.tensor, c.heads)),
      kv_width_(c.hidden / c.heads * c.kv_heads / std::gcd(c.tensor, c.kv_heads)),
      head_dim_(c.hidden / c.heads),
      q_(make_q(c)) {
  if (fuse(c)) return;
  const std::int64_t kv = c.hidden / c.heads * c.kv_heads;
  const std::string dot = c.name + ".";
  kv_.emplace(dot + c.kv, std::vector<LinearOutput>{{dot + c.k, kv}, {dot + c.v, kv}}, c.hidden,
              std::gcd(c.tensor, c.kv_heads), c.bias);
}

// Weights before biases, so that the logical order is the same however q, k and v are fused.
std::vector<Parameter*> QkvProjection::parameters() {
  std::vector<Parameter*> all = q_.parameters();
  if (!kv_) return all;
  const std::vector<Parameter*> kv = kv_->parameters();
  all.insert(all.begin() + 1, kv[0]);
  if (kv.size() > 1) all.push_back(kv[1]);
  return all;
}

void QkvProjection::forward(const Tensor& x, std::vector<Tensor>& out, const Microbatch& mb) const {
  out.push_back(q_.forward(x, mb));
  if (kv_) out.push_back(kv_->forward(x, mb));
}

std::int64_t QkvProjection::elements(int i, std::int64_t tokens) const {
  const ColumnLinear& linear = i == 0 ? q_ : *kv_;
  return linear.pieces() * tokens * linear.piece_width();
}

QkvProjection::Heads QkvProjection::heads(const Tensor* t) const {
  const Tensor& kv = fused() ? t[0] : t[1];
  const std::int64_t k_column = fused() ? q_width_ : 0;
  return {{t[0], 0, q_width_ / head_dim_},
          {kv, k_column, kv_width_ / head_dim_},
          {kv, k_column + kv_width_, kv_width_ / head_dim_}};
}

Tensor QkvProjection::backward_input(const Tensor* d, const Microbatch& mb) const {
  if (fused()) return q_.backward_input(d[0], mb);
  const Tensor terms = q_.backward_input_terms(d[0], mb);
  const Tensor& kv_weight = kv_->weight();
  const std::int64_t group = q_.pieces() / kv_->pieces();
  for (std::int64_t g = 0; g < kv_->pieces(); ++g)
    ops::linear_backward_input(mb.stream, d[1].slice(g, g + 1), kv_weight.slice(g, g + 1),
                               terms.slice(g * group, g * group + 1), /*accumulate=*/true);
  Tensor dx = mb.activation({terms.dim(1), terms.dim(2)});
  ops::tree_sum(mb.stream, terms, dx);
  return dx;
}

void QkvProjection::backward_weight(const Tensor& x, const Tensor* d, const Microbatch& mb) {
  if (kv_) kv_->backward_weight(x, d[1], mb);
  q_.backward_weight(x, d[0], mb);
}

void QkvProjection::count_backward_input(MemoryMeter& meter, std::int64_t tokens) const {
  q_.count_backward_input(meter, tokens);
}

}  // namespace shoal::nn
