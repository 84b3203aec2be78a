#pragma once
#include "kernels/common/isa.hpp"
#include "kernels/common/storage_code.hpp"

namespace shoal::kernels {

struct CrossEntropyArgs {
  Storage type;            // of logits and dlogits
  const void* logits;      // [pieces, rows, width]
  const int32_t* targets;  // [rows], in [0, vocab) or `ignored`
  float* loss;             // [rows]
  void* dlogits;           // as logits, may be the same; or null
  int64_t pieces, rows, width, vocab;
  int32_t ignored;
  float scale;
};

}  // namespace shoal::kernels

// Zero, or -1: no memory for a row of exponentials (which only 16-bit gradients need).
SHOAL_KERNEL(int cross_entropy(const CrossEntropyArgs& args))
// The sum of x [n] in FP64: blocks of 64 upward, then the tree.
SHOAL_KERNEL(double sum_f64(const float* x, std::int64_t n))
