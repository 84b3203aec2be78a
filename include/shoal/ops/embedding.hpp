// Token and position embedding.
#pragma once
#include <cstdint>

#include "shoal/ops/dropout.hpp"

namespace shoal::ops {

// y[t] = word[tokens[t]] (+ position[t % seq]), then dropout.  tokens i32 [M]; word [V, H]; position [>= seq, H] or
// undefined; y [M, H]. Throws ShapeError naming the first token id outside [0, V).
void embedding_forward(const Stream& stream, const Tensor& tokens, const Tensor& word, const Tensor& position,
                       std::int64_t seq, const Dropout& dropout, const Tensor& y);
// dword [V, H] (+)= sums over the tokens with that id, in ascending token order; dposition alike over samples.
// dy is the gradient before the dropout's backward, which is applied here.
void embedding_backward(const Stream& stream, const Tensor& dy, const Tensor& tokens, std::int64_t seq,
                        const Dropout& dropout, const Tensor& dword, const Tensor& dposition, bool accumulate);

}  // namespace shoal::ops
