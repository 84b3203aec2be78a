// The layers of GPT and Llama as loops over rows, heads and elements (docs/numerics.md has the order of each sum).
// Activations are row-major [M, width] or piece-major [pieces][M, width].
#pragma once
#include <cstdint>

#include "support/plain/math.hpp"

namespace shoal::plain {

// bias null: RMS norm (no mean).
struct NormSaved {
  Vec x, mean, rstd;
};
Vec norm_forward(const Vec& x, std::int64_t hidden, const float* weight, const float* bias, float eps,
                 NormSaved& saved);
// Adds to (or, where accumulate is false, replaces) dweight[s], dbias[s] for token shard s; dres may be null.
Vec norm_backward(const Vec& dy, const NormSaved& saved, std::int64_t hidden, const float* weight,
                  const Vec* dres, std::vector<Vec>& dweight, std::vector<Vec>* dbias, bool accumulate);

// Sums of the rows of dy [rows, width]: blocks of 64, from the first row of each; then + what was there.
void bias_gradient(const float* dy, std::int64_t rows, std::int64_t width, float* db, bool accumulate);

// Where a head's elements lie.
struct Heads {
  float* base;
  std::int64_t tokens, width, column, per_piece, dim;
  float& at(std::int64_t head, std::int64_t token, std::int64_t d) const {
    return base[(head / per_piece * tokens + token) * width + column + head % per_piece * dim + d];
  }
};
struct AttentionSize {
  std::int64_t samples, seq, heads, kv_heads, dim;
  std::int64_t first_sample;
  float scale;
  Drop drop;
};
void attention_forward(const AttentionSize& s, Heads q, Heads k, Heads v, Heads o, Vec& lse);
void attention_backward(const AttentionSize& s, Heads q, Heads k, Heads v, Heads o, const Vec& lse, Heads d_o,
                        Heads dq, Heads dk, Heads dv);
void rotate(Heads x, std::int64_t heads, std::int64_t seq, double theta, bool backward);

// logits [pieces][M, width] become their gradient; returns the loss of each row.
Vec cross_entropy(Vec& logits, std::int64_t pieces, std::int64_t rows, std::int64_t width, std::int64_t vocab,
                  const std::vector<std::int32_t>& targets, float scale);

}  // namespace shoal::plain
