// Attention's memory, and its form for text generation.
#include "shoal/nn/attention.hpp"

namespace shoal::nn {

std::int64_t AttentionBlock::saved_bytes(std::int64_t samples, std::int64_t seq, DType activations) const {
  MemoryMeter m(activations);
  const std::int64_t tokens = samples * seq, width = tokens * config_.hidden;
  m.take_activation(width);  // x
  for (int i = 0; i < norm_->statistics(); ++i) m.take(tokens);
  m.take_activation(width);  // h
  for (int i = 0; i < qkv_.activations(); ++i) m.take_activation(qkv_.elements(i, tokens));
  m.take_activation(width);               // o
  m.take(samples * config_.heads * seq);  // log-sum-exp
  return m.in_use();
}

void AttentionBlock::count_forward(MemoryMeter& m, std::int64_t samples, std::int64_t seq) const {
  const std::int64_t tokens = samples * seq, width = tokens * config_.hidden;
  m.take_activation(width);
  for (int i = 0; i < norm_->statistics(); ++i) m.take(tokens);
  for (int i = 0; i < qkv_.activations(); ++i) m.take_activation(qkv_.elements(i, tokens));
  m.take_activation(width);
  m.take(samples * config_.heads * seq);
  out_.count_forward(m, tokens);
}

void AttentionBlock::count_backward(MemoryMeter& m, std::int64_t samples, std::int64_t seq) const {
  const std::int64_t tokens = samples * seq, width = tokens * config_.hidden;
  if (config_.dropout > 0) m.take_activation(width);  // dz
  m.take_activation(width);                           // d_o
  if (config_.dropout > 0) m.give_activation(width);
  for (int i = 0; i < qkv_.activations(); ++i) m.take_activation(qkv_.elements(i, tokens));
  for (int i = 0; i < qkv_.activations(); ++i) m.give_activation(qkv_.elements(i, tokens));
  m.give_activation(width);  // d_o
  m.give_activation(width);  // o
  m.give(samples * config_.heads * seq);
  m.give_activation(width);  // h
  qkv_.count_backward_input(m, tokens);
  for (int i = 0; i < qkv_.activations(); ++i) m.give_activation(qkv_.elements(i, tokens));
  m.scratch(norm_->backward_scratch(tokens));
  for (int i = 0; i < norm_->statistics(); ++i) m.give(tokens);
  m.give_activation(width);  // x
  m.give_activation(width);  // dy
}

Tensor AttentionBlock::decode(const Tensor& x, std::int64_t position, const Tensor& k_cache,
                              const Tensor& v_cache, const Microbatch& mb) {
  std::vector<Tensor> scratch, t;
  const Tensor h = norm_->forward(x, scratch, mb);
  qkv_.forward(h, t, mb);
  const QkvProjection::Heads heads = qkv_.heads(t.data());
  if (rotary_) {
    rotary_->apply(heads.q, config_.heads, mb, /*backward=*/false, position);
    rotary_->apply(heads.k, config_.kv_heads, mb, /*backward=*/false, position);
  }
  // One token's heads, from the columns of their pieces to one dense row.
  const std::int64_t head_dim = config_.hidden / config_.heads;
  const auto gather = [&](const ops::HeadsView& from, const Tensor& row) {
    const std::int64_t n = from.heads_per_piece * head_dim, width = from.t.dim(2);
    const Tensor flat = from.t.flat(), to = row.flat();
    for (std::int64_t p = 0; p < from.t.dim(0); ++p)
      copy(mb.stream, flat.slice(p * width + from.column, p * width + from.column + n),
           to.slice(p * n, (p + 1) * n));
  };
  const Tensor q = mb.empty({config_.hidden});
  gather(heads.q, q);
  gather(heads.k, k_cache.select(position));
  gather(heads.v, v_cache.select(position));
  const Tensor o = mb.empty({out_.pieces(), 1, out_.piece_width()});
  ops::attention_decode(mb.stream, shape(1, position + 1), q, k_cache.slice(0, position + 1),
                        v_cache.slice(0, position + 1), position + 1, o.flat());
  return out_.forward(o, x, {}, mb);
}

}  // namespace shoal::nn
