// Rotary position embedding in place. Bound by memory: 8 bytes an element in FP32, 4 in 16 bits, and the position's row
// of the tables (head_dim / 2 cosines and sines) is read once for all heads of a token. Elementwise: any split gives
// the same bits.
#include "kernels/cpu/rotary.hpp"

#include "kernels/common/columns.hpp"
#include "kernels/common/parallel.hpp"

namespace shoal::kernels::SHOAL_ISA {

namespace {

template <class T>
void rotate(const RotaryArgs& a, T* base) {
  const int64_t half = a.head_dim / 2;
  const vf sign = set1(a.backward ? -1.0f : 1.0f);
  parallel_blocks(a.tokens, 16, a.tokens * a.heads * a.head_dim * 8, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float *cos = a.cos + t % a.seq * half, *sin = a.sin + t % a.seq * half;
      for (int64_t h = 0; h < a.heads; ++h) {
        T* x = base + (h / a.heads_per_piece * a.tokens + t) * a.width + a.column +
               h % a.heads_per_piece * a.head_dim;
        over_columns(0, half, [=](int64_t i, auto part) {
          const vf c = part.get(cos + i), s = part.get(sin + i) * sign;
          const vf low = part.get(x + i), high = part.get(x + half + i);
          part.put(x + i, low * c - high * s);
          part.put(x + half + i, high * c + low * s);
        });
      }
    }
  });
}

}  // namespace

void rotary(const RotaryArgs& a) {
  with_storage(a.type, [&](auto* t) { rotate(a, static_cast<__typeof__(t)>(a.x)); });
}

}  // namespace shoal::kernels::SHOAL_ISA
