#pragma once
#include "kernels/common/isa.hpp"
#include "kernels/common/storage_code.hpp"

namespace shoal::kernels {

// Heads of a piece-major activation x [pieces, tokens, width] (HeadsView).
struct RotaryArgs {
  Storage type;  // of x
  void* x;
  int64_t tokens, width, column, heads, heads_per_piece, head_dim, seq;
  const float *cos, *sin;  // [>= seq, head_dim / 2]
  bool backward;
};

}  // namespace shoal::kernels

SHOAL_KERNEL(void rotary(const RotaryArgs& args))
