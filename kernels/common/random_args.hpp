// A RandomKey and a dropout as kernels take them: plain numbers, so that kernels see no inline function of
// core.
#pragma once
#include <stdint.h>

namespace shoal::kernels {

// The Philox key, and the counter without its block number (RandomKey::counter).
struct RandomArgs {
  uint32_t key0, key1;
  uint32_t counter1;  // layer << 16
  uint32_t counter2, counter3;
};

struct DropoutArgs {
  bool active;  // false: nothing is drawn, x passes
  RandomArgs random;
  uint32_t threshold;  // dropped when the number is below it
  float scale;         // 1 / (1 - p)
  uint64_t first;      // index in the global batch of the first element given
};

}  // namespace shoal::kernels
