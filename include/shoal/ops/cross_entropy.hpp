// Softmax cross-entropy, fused: the gradient is written where the logits were.
#pragma once
#include <cstdint>

#include "shoal/core/tensor.hpp"

namespace shoal::ops {

inline constexpr std::int32_t ignored_token = -1;  // a target that does not count

// logits [P, M, Vp] (the vocabulary in P pieces; columns at or beyond `vocab` are padding and do not count);
// f32, bf16 or f16; targets i32 [M]; loss f32 [M] = -log softmax(logits)[target], 0 where ignored.
// dlogits, where defined (may be logits): (softmax - one-hot) * scale, 0 in ignored rows and padding;
// scale = loss_scale / the global count of valid tokens (R11). dlogits are of the logits' type: exponentials stay FP32,
// and (softmax - one-hot) * scale is rounded once.
// The maximum is exact; the sum of exponentials runs per piece in fixed blocks, then the tree over pieces (R6).
// Throws ShapeError naming the first target outside [0, vocab) that is not ignored_token.
void cross_entropy(const Stream& stream, const Tensor& logits, const Tensor& targets, std::int64_t vocab,
                   const Tensor& loss, const Tensor& dlogits, float scale);
// sum f64 [1] = the sum of loss f32 [M], FP64, blocks of 64 then the tree.
void loss_sum(const Stream& stream, const Tensor& loss, const Tensor& sum);

}  // namespace shoal::ops
