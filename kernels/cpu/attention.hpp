#pragma once
#include "kernels/common/isa.hpp"
#include "kernels/common/random_args.hpp"
#include "kernels/common/storage_code.hpp"

namespace shoal::kernels {

// Where heads lie: head h of sample s begins at
//   base + (h / heads_per_piece) * piece + s * seq * row + column + (h % heads_per_piece) * head_dim,
// its tokens `row` elements apart.
struct HeadsArgs {
  void* base;
  std::int64_t piece, row, column, heads_per_piece;
};

struct AttentionArgs {
  Storage type;  // of all heads; tiles and lse are FP32
  std::int64_t samples, seq, heads, kv_heads, head_dim;
  float scale;
  HeadsArgs q, k, v, o;
  float* lse;                 // [samples, heads, seq]
  HeadsArgs d_o, dq, dk, dv;  // backward only
  DropoutArgs dropout;        // its `first` is not used: indices are drawn from the three numbers below
  std::int64_t first_sample, first_head, all_heads;
};

}  // namespace shoal::kernels

// Zero, or -1: no memory for the tiles.
SHOAL_KERNEL(int attention_forward(const AttentionArgs& args))
SHOAL_KERNEL(int attention_backward(const AttentionArgs& args))
// FP32 alone: text generation computes in it.
SHOAL_KERNEL(void attention_decode(const float* q, const float* k, const float* v, float* o,
                                   std::int64_t length, std::int64_t heads, std::int64_t kv_heads,
                                   std::int64_t head_dim, float scale))
