// Token and position embedding.
#pragma once
#include <cstdint>

#include "shoal/ops/dropout.hpp"

namespace shoal::ops {

// y[t] = word[tokens[t]] (+ position[t % seq]), then dropout.  tokens i32 [M]; word [V, H], or its rows in pieces, [P,
// V / P, H], which may lie apart; position [>= seq, H] or undefined; y [M, H]. Rows at or beyond `vocab` are padding
// (0: there are none). word and position are of one training type (f32, bf16, f16), y of another or the same: the sum
// is rounded to y's type before dropout reads it, and what dropout gives once more. Throws ShapeError naming the first
// token id outside the vocabulary.
void embedding_forward(const Stream& stream, const Tensor& tokens, const Tensor& word, const Tensor& position,
                       std::int64_t seq, const Dropout& dropout, const Tensor& y, std::int64_t vocab = 0);
// dword (+)= sums over the tokens with that id, in ascending token order (0 in padding rows); dposition alike over
// samples. Shapes as above; dword and dposition f32, dy of any training type. dy is the gradient before the dropout's
// backward, which is applied here.
void embedding_backward(const Stream& stream, const Tensor& dy, const Tensor& tokens, std::int64_t seq,
                        const Dropout& dropout, const Tensor& dword, const Tensor& dposition, bool accumulate,
                        std::int64_t vocab = 0);

}  // namespace shoal::ops
