#pragma once
#include "kernels/common/isa.hpp"
#include "kernels/common/random_args.hpp"

namespace shoal::kernels {

struct EmbeddingArgs {
  const int32_t* tokens;  // [rows], every one inside the vocabulary
  int64_t rows, hidden, seq;
  // The words' rows, or their gradients': `pieces` of `piece_rows`, with `gap` floats between one and the next.
  int64_t pieces, piece_rows, gap;
  DropoutArgs dropout;
};

}  // namespace shoal::kernels

// position may be null.
SHOAL_KERNEL(void embedding_forward(const EmbeddingArgs& args, const float* word, const float* position,
                                    float* y))
// dword [pieces, piece_rows, hidden], dposition [positions, hidden] or null; cleared first unless `accumulate`.
SHOAL_KERNEL(void embedding_backward(const EmbeddingArgs& args, const float* dy, float* dword,
                                     float* dposition, std::int64_t positions, bool accumulate))
