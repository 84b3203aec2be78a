// Causal attention with grouped queries, in tiles: softmax(Q K^T * scale + mask) V, never a seq x seq matrix
// in memory (Rabe and Staats 2021; Dao et al. 2022; the saved statistic is log-sum-exp, Dao 2023).
//
// Q, K, V, O and their gradients are all of one type: f32, bf16 or f16 (else ShapeError). Scores, probabilities, sums and
// log-sum-exp are FP32. Each element of O, dQ, dK and dV is rounded once, when it is complete: O after the division, dK and
// dV after the tree.
#pragma once
#include <cstdint>

#include "shoal/core/tensor.hpp"
#include "shoal/ops/dropout.hpp"

namespace shoal::ops {

// Where the heads of Q, K, V or O lie in a piece-major activation [pieces, tokens, width]: head h is in piece
// h / heads_per_piece, at columns column + (h % heads_per_piece) * head_dim.
struct HeadsView {
  Tensor t;
  std::int64_t column = 0;
  std::int64_t heads_per_piece = 1;
};

struct AttentionShape {
  std::int64_t samples = 0, seq = 0;  // tokens = samples x seq
  std::int64_t heads = 0,
               kv_heads = 0;  // kv_heads divides heads; query head h reads kv head h / (heads / kv_heads)
  std::int64_t head_dim = 0;
  float scale = 1.0f;  // 1 / sqrt(head_dim)
  // Dropout counts heads in the whole layer: head 0 here is first_head of all_heads (0: these are all).
  std::int64_t first_head = 0, all_heads = 0;
};

// o and lse [samples, heads, seq] (f32, log of the sum of exponentials) are written. Dropout acts on the
// probabilities; element (sample, head, i, j) has index ((sample * all_heads + head) * seq + i) * seq + j, where
// sample counts from dropout.first_sample and head from first_head.
void attention_forward(const Stream& stream, const AttentionShape& shape, const HeadsView& q,
                       const HeadsView& k, const HeadsView& v, const HeadsView& o, const Tensor& lse,
                       const Dropout& dropout);
// dq, dk, dv are overwritten; o is what forward stored, rounded: sum(dO O) is of that. dK and dV sum over queries
// upward; over the query heads of a group, within a query piece in head order, then over query pieces by the tree (R6).
void attention_backward(const Stream& stream, const AttentionShape& shape, const HeadsView& q,
                        const HeadsView& k, const HeadsView& v, const HeadsView& o, const Tensor& lse,
                        const HeadsView& d_o, const HeadsView& dq, const HeadsView& dk, const HeadsView& dv,
                        const Dropout& dropout);

// One query row for text generation: q [heads x head_dim] against k, v rows 0..length-1 of a cache
// [length, kv_heads x head_dim] each; o [heads x head_dim]. f32 alone: text generation computes in it.
void attention_decode(const Stream& stream, const AttentionShape& shape, const Tensor& q,
                      const Tensor& k_cache, const Tensor& v_cache, std::int64_t length, const Tensor& o);

}  // namespace shoal::ops
