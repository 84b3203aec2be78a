#include "support/plain/model.hpp"

#include <cmath>
#include <numeric>

namespace shoal::plain {

struct Model::Block {
  NormSaved norm_1, norm_2;
  Vec h_1, qkv, kv, o, lse;  // attention
  Vec h_2, u, a;             // MLP
};

Model::Model(models::LanguageModel& model, bool loop) : c_(model.config()), loop_(loop) {
  for (const nn::Parameter* p : model.parameters()) {
    values[p->name] = Vec(p->value.as<float>(), p->value.as<float>() + p->numel());
    shapes_[p->name] = {p->shape, p->parts};
  }
}

Grads Model::zero_grads() const {
  Grads g;
  for (const auto& [name, shape] : shapes_)
    g[name] = std::vector<Vec>(shape.second, Vec(shape.first.numel(), 0.0f));
  return g;
}

Drop Model::drop(Purpose purpose, std::int64_t layer, const Batch& b) const {
  return {c_.dropout, {b.seed, purpose, b.number, static_cast<std::uint32_t>(layer)}};
}

std::string Model::prefix(std::int64_t layer) const {
  return (gpt() ? "blocks." : "model.layers.") + std::to_string(layer) + ".";
}

namespace {

// How queries, keys and values of one activation lie; fused in a piece where all have the same number of pieces.
struct Projections {
  std::int64_t q_pieces, kv_pieces, q_width, kv_width;
  bool fused;
  explicit Projections(const models::ModelConfig& c)
      : q_pieces(std::gcd(c.tensor, c.heads)),
        kv_pieces(std::gcd(c.tensor, c.kv_heads)),
        q_width(c.hidden / q_pieces),
        kv_width(c.head_dim() * c.kv_heads / kv_pieces),
        fused(q_pieces == kv_pieces) {}
  std::int64_t first_width() const { return fused ? q_width + 2 * kv_width : q_width; }
  Heads q(Vec& qkv, std::int64_t tokens, std::int64_t dim) const {
    return {qkv.data(), tokens, first_width(), 0, q_width / dim, dim};
  }
  Heads k(Vec& qkv, Vec& kv, std::int64_t tokens, std::int64_t dim) const {
    return {fused ? qkv.data() : kv.data(),
            tokens,
            fused ? first_width() : 2 * kv_width,
            fused ? q_width : 0,
            kv_width / dim,
            dim};
  }
  Heads v(Vec& qkv, Vec& kv, std::int64_t tokens, std::int64_t dim) const {
    Heads heads = k(qkv, kv, tokens, dim);
    heads.column += kv_width;
    return heads;
  }
};

}  // namespace

Vec Model::attention_forward(const Vec& x, std::int64_t layer, Block& s, const Batch& b) const {
  const std::string block = prefix(layer), name = block + (gpt() ? "attn." : "self_attn.");
  const Projections p(c_);
  const std::int64_t tokens = b.samples * c_.seq, dim = c_.head_dim();
  s.h_1 = norm(x, block + (gpt() ? "ln_1" : "input_layernorm"), s.norm_1);
  if (p.fused) {
    s.qkv = column(s.h_1, name + (gpt() ? "qkv" : "qkv_proj"), p.q_pieces, p.first_width(), c_.hidden);
  } else {
    s.qkv = column(s.h_1, name + "q_proj", p.q_pieces, p.q_width, c_.hidden);
    s.kv = column(s.h_1, name + "kv_proj", p.kv_pieces, 2 * p.kv_width, c_.hidden);
  }
  const Heads q = p.q(s.qkv, tokens, dim), k = p.k(s.qkv, s.kv, tokens, dim),
              v = p.v(s.qkv, s.kv, tokens, dim);
  if (!gpt()) {
    rotate(q, c_.heads, c_.seq, c_.rope_theta, false);
    rotate(k, c_.kv_heads, c_.seq, c_.rope_theta, false);
  }
  s.o.assign(tokens * c_.hidden, 0.0f);
  const AttentionSize size{b.samples,
                           c_.seq,
                           c_.heads,
                           c_.kv_heads,
                           dim,
                           b.first_sample,
                           static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim))),
                           drop(Purpose::dropout_attention, layer, b)};
  plain::attention_forward(size, q, k, v, {s.o.data(), tokens, p.q_width, 0, p.q_width / dim, dim}, s.lse);
  const std::string out = name + (gpt() ? "proj" : "o_proj");
  return residual(x, row_sum(s.o, out, p.q_pieces, p.q_width), out + ".bias",
                  drop(Purpose::dropout_attention_out, layer, b), b.first_sample * c_.seq * c_.hidden);
}

Vec Model::attention_backward(Vec dy, std::int64_t layer, Block& s, const Batch& b, Grads& grads) const {
  const std::string block = prefix(layer), name = block + (gpt() ? "attn." : "self_attn.");
  const Projections p(c_);
  const std::int64_t tokens = b.samples * c_.seq, dim = c_.head_dim();
  const Drop out_drop = drop(Purpose::dropout_attention_out, layer, b);
  Vec dz = dy;
  for (std::size_t e = 0; e < dz.size(); ++e)
    dz[e] = out_drop(dz[e], b.first_sample * c_.seq * c_.hidden + e);
  Vec d_o =
      row_backward(s.o, dz, name + (gpt() ? "proj" : "o_proj"), p.q_pieces, p.q_width, grads, b.accumulate);
  Vec d_qkv(s.qkv.size()), d_kv(s.kv.size());
  const auto o_heads = [&](Vec& t) { return Heads{t.data(), tokens, p.q_width, 0, p.q_width / dim, dim}; };
  const AttentionSize size{b.samples,
                           c_.seq,
                           c_.heads,
                           c_.kv_heads,
                           dim,
                           b.first_sample,
                           static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim))),
                           drop(Purpose::dropout_attention, layer, b)};
  const Heads dq = p.q(d_qkv, tokens, dim), dk = p.k(d_qkv, d_kv, tokens, dim),
              dv = p.v(d_qkv, d_kv, tokens, dim);
  plain::attention_backward(size, p.q(s.qkv, tokens, dim), p.k(s.qkv, s.kv, tokens, dim),
                            p.v(s.qkv, s.kv, tokens, dim), o_heads(s.o), s.lse, o_heads(d_o), dq, dk, dv);
  if (!gpt()) {
    rotate(dq, c_.heads, c_.seq, c_.rope_theta, true);
    rotate(dk, c_.kv_heads, c_.seq, c_.rope_theta, true);
  }
  Vec dh;
  if (p.fused) {
    const std::string qkv = name + (gpt() ? "qkv" : "qkv_proj");
    column_gradients(s.h_1, d_qkv, qkv, p.q_pieces, p.first_width(), c_.hidden, grads, b.accumulate);
    dh = input_gradient(d_qkv, qkv, p.q_pieces, p.first_width(), c_.hidden);
  } else {
    column_gradients(s.h_1, d_kv, name + "kv_proj", p.kv_pieces, 2 * p.kv_width, c_.hidden, grads,
                     b.accumulate);
    column_gradients(s.h_1, d_qkv, name + "q_proj", p.q_pieces, p.q_width, c_.hidden, grads, b.accumulate);
    // The term of k and v is added to that of the first query piece of their group; then the tree.
    const std::int64_t group = p.q_pieces / p.kv_pieces;
    std::vector<Vec> terms(p.q_pieces, Vec(tokens * c_.hidden));
    for (std::int64_t i = 0; i < p.q_pieces; ++i) {
      product(loop_, false, false, tokens, c_.hidden, p.q_width, &d_qkv[i * tokens * p.q_width],
              value(name + "q_proj.weight") + i * p.q_width * c_.hidden, terms[i].data(), false);
      if (i % group == 0)
        product(loop_, false, false, tokens, c_.hidden, 2 * p.kv_width,
                &d_kv[i / group * tokens * 2 * p.kv_width],
                value(name + "kv_proj.weight") + i / group * 2 * p.kv_width * c_.hidden, terms[i].data(),
                true);
    }
    tree(terms);
    dh = terms[0];
  }
  return norm_gradient(dh, block + (gpt() ? "ln_1" : "input_layernorm"), s.norm_1, &dy, grads, b.accumulate);
}

Vec Model::mlp_forward(const Vec& x, std::int64_t layer, Block& s, const Batch& b) const {
  const std::string block = prefix(layer), name = block + "mlp.";
  const std::int64_t pieces = std::gcd(c_.tensor, c_.ffn_hidden), width = c_.ffn_hidden / pieces;
  s.h_2 = norm(x, block + (gpt() ? "ln_2" : "post_attention_layernorm"), s.norm_2);
  if (gpt()) {
    s.u = column(s.h_2, name + "fc", pieces, width, c_.hidden);
    s.a = s.u;
    for (float& e : s.a) e = gelu(e);
  } else {
    s.u = column(s.h_2, name + "gate_up_proj", pieces, 2 * width, c_.hidden);
    s.a.resize(s.u.size() / 2);
    for (std::size_t e = 0; e < s.a.size(); ++e) {
      const float gate = s.u[e / width * 2 * width + e % width],
                  up = s.u[e / width * 2 * width + width + e % width];
      s.a[e] = (gate * sigmoid(gate)) * up;
    }
  }
  const std::string out = name + (gpt() ? "proj" : "down_proj");
  return residual(x, row_sum(s.a, out, pieces, width), out + ".bias",
                  drop(Purpose::dropout_ffn_out, layer, b), b.first_sample * c_.seq * c_.hidden);
}

Vec Model::mlp_backward(Vec dy, std::int64_t layer, Block& s, const Batch& b, Grads& grads) const {
  const std::string block = prefix(layer), name = block + "mlp.";
  const std::int64_t pieces = std::gcd(c_.tensor, c_.ffn_hidden), width = c_.ffn_hidden / pieces;
  const Drop out_drop = drop(Purpose::dropout_ffn_out, layer, b);
  Vec dz = dy;
  for (std::size_t e = 0; e < dz.size(); ++e)
    dz[e] = out_drop(dz[e], b.first_sample * c_.seq * c_.hidden + e);
  const Vec da =
      row_backward(s.a, dz, name + (gpt() ? "proj" : "down_proj"), pieces, width, grads, b.accumulate);
  Vec du(s.u.size());
  for (std::size_t e = 0; e < da.size(); ++e) {
    if (gpt()) {
      du[e] = da[e] * gelu_derivative(s.u[e]);
      continue;
    }
    const std::size_t gate = e / width * 2 * width + e % width, up = gate + width;
    const float g = s.u[gate], sig = sigmoid(g);
    du[gate] = (da[e] * s.u[up]) * (sig * std::fma(g, 1.0f - sig, 1.0f));
    du[up] = da[e] * (g * sig);
  }
  const std::string in = name + (gpt() ? "fc" : "gate_up_proj");
  const std::int64_t in_width = gpt() ? width : 2 * width;
  column_gradients(s.h_2, du, in, pieces, in_width, c_.hidden, grads, b.accumulate);
  return norm_gradient(input_gradient(du, in, pieces, in_width, c_.hidden),
                       block + (gpt() ? "ln_2" : "post_attention_layernorm"), s.norm_2, &dy, grads,
                       b.accumulate);
}

Vec Model::microbatch(const Batch& b, Grads& grads) const {
  const std::int64_t tokens = b.samples * c_.seq, hidden = c_.hidden;
  const std::uint64_t first = b.first_sample * c_.seq * hidden;
  const std::string word = (gpt() ? "wte" : "model.embed_tokens") + std::string(".weight");
  const std::string head = c_.tie_embeddings ? word : "lm_head.weight", last = gpt() ? "ln_f" : "model.norm";
  const Drop embedding_drop = drop(Purpose::dropout_embedding, 0, b);
  Vec x(tokens * hidden);
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t i = 0; i < hidden; ++i) {
      float e = value(word)[b.tokens[t] * hidden + i];
      if (gpt()) e = e + value("wpe.weight")[t % c_.seq * hidden + i];
      x[t * hidden + i] = embedding_drop(e, first + t * hidden + i);
    }
  std::vector<Block> saved(c_.layers);
  for (std::int64_t l = 0; l < c_.layers; ++l)
    x = mlp_forward(attention_forward(x, l, saved[l], b), l, saved[l], b);

  NormSaved norm_saved;
  const Vec h = norm(x, last, norm_saved);
  const std::int64_t pieces = c_.tensor, width = c_.padded_vocab() / pieces;
  Vec logits(pieces * tokens * width);
  for (std::int64_t p = 0; p < pieces; ++p)
    product(loop_, false, true, tokens, width, hidden, h.data(), value(head) + p * width * hidden,
            &logits[p * tokens * width], false);
  const Vec loss = cross_entropy(logits, pieces, tokens, width, c_.vocab, b.targets, b.scale);

  std::vector<Vec> terms(pieces, Vec(tokens * hidden));
  for (std::int64_t p = 0; p < pieces; ++p) {
    product(loop_, true, false, width, hidden, tokens, &logits[p * tokens * width], h.data(),
            &grads.at(head)[c_.tie_embeddings ? 1 : 0][p * width * hidden], b.accumulate);
    product(loop_, false, false, tokens, hidden, width, &logits[p * tokens * width],
            value(head) + p * width * hidden, terms[p].data(), false);
  }
  tree(terms);
  Vec d = norm_gradient(terms[0], last, norm_saved, nullptr, grads, b.accumulate);
  for (std::int64_t l = c_.layers; l-- > 0;)
    d = attention_backward(mlp_backward(d, l, saved[l], b, grads), l, saved[l], b, grads);

  // Embeddings: tokens upward, from +0 or from what was there.
  Vec& to_word = grads.at(word)[0];
  Vec* to_position = gpt() ? &grads.at("wpe.weight")[0] : nullptr;
  if (!b.accumulate) {
    std::fill(to_word.begin(), to_word.end(), 0.0f);
    if (to_position) std::fill(to_position->begin(), to_position->end(), 0.0f);
  }
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t i = 0; i < hidden; ++i) {
      const float g = embedding_drop(d[t * hidden + i], first + t * hidden + i);
      float& w = to_word[b.tokens[t] * hidden + i];
      w = w + g;
      if (!to_position) continue;
      float& p = (*to_position)[t % c_.seq * hidden + i];
      p = p + g;
    }
  return loss;
}

}  // namespace shoal::plain
