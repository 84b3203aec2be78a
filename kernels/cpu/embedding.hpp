#pragma once
#include "kernels/common/isa.hpp"
#include "kernels/common/random_args.hpp"
#include "kernels/common/storage_code.hpp"

namespace shoal::kernels {

struct EmbeddingArgs {
  const int32_t* tokens;  // [rows], every one inside the vocabulary
  int64_t rows, hidden, seq;
  // The words' rows, or their gradients': `pieces` of `piece_rows`, with `gap` elements between one and the next.
  int64_t pieces, piece_rows, gap;
  DropoutArgs dropout;
};

}  // namespace shoal::kernels

// word and position (which may be null) of `parameters`, y of `type`.
SHOAL_KERNEL(void embedding_forward(const EmbeddingArgs& args, Storage parameters, const void* word,
                                    const void* position, Storage type, void* y))
// dy of `type`; dword [pieces, piece_rows, hidden], dposition [positions, hidden] or null; cleared first unless
// `accumulate`.
SHOAL_KERNEL(void embedding_backward(const EmbeddingArgs& args, Storage type, const void* dy, float* dword,
                                     float* dposition, std::int64_t positions, bool accumulate))
