// GELU and SwiGLU. Bound by memory when the array is large: in FP32 GELU forward reads 4 and writes 4
// bytes an element for some 25 operations, SwiGLU reads 8 and writes 4, in 16 bits half of it; no reduction, so any
// split gives the same bits.
#include "kernels/cpu/activation.hpp"

#include "kernels/common/columns.hpp"
#include "kernels/common/parallel.hpp"
#include "kernels/common/vec.hpp"

namespace shoal::kernels::SHOAL_ISA {

namespace {

constexpr int64_t grain = 4096;

int64_t rows_a_block(int64_t columns) { return columns < grain ? grain / (columns > 0 ? columns : 1) : 1; }

}  // namespace

void gelu_forward(Storage type, const void* x, void* y, int64_t n) {
  with_storage(type, [=](auto* t) {
    using T = __typeof__(*t);
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    parallel_blocks(n, grain, n * 8, [=](int64_t begin, int64_t end) {
      over_columns(begin, end, [=](int64_t i, auto part) { part.put(to + i, vgelu(part.get(from + i))); });
    });
  });
}

void gelu_backward(Storage type, const void* dy, const void* x, void* dx, int64_t n) {
  with_storage(type, [=](auto* t) {
    using T = __typeof__(*t);
    const T *d = static_cast<const T*>(dy), *from = static_cast<const T*>(x);
    T* to = static_cast<T*>(dx);
    parallel_blocks(n, grain, n * 12, [=](int64_t begin, int64_t end) {
      over_columns(begin, end, [=](int64_t i, auto part) {
        part.put(to + i, part.get(d + i) * vgelu_derivative(part.get(from + i)));
      });
    });
  });
}

// y [rows, F] = silu(gate) up.  gate_up [rows, 2 F].
void swiglu_forward(Storage type, const void* gate_up, void* y, int64_t rows, int64_t F) {
  with_storage(type, [=](auto* t) {
    using T = __typeof__(*t);
    parallel_blocks(rows, rows_a_block(F), rows * F * 12, [=](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T *g = static_cast<const T*>(gate_up) + r * 2 * F, *u = g + F;
        T* out = static_cast<T*>(y) + r * F;
        over_columns(0, F, [=](int64_t i, auto part) {
          const vf x = part.get(g + i);
          part.put(out + i, (x * vsigmoid(x)) * part.get(u + i));
        });
      }
    });
  });
}

// d gate = dy up s (1 + g (1 - s)), d up = dy g s, s = sigmoid(g). A column's two inputs are read before its
// two outputs are written, so d_gate_up may be gate_up.
void swiglu_backward(Storage type, const void* dy, const void* gate_up, void* d_gate_up, int64_t rows,
                     int64_t F) {
  with_storage(type, [=](auto* t) {
    using T = __typeof__(*t);
    parallel_blocks(rows, rows_a_block(F), rows * F * 20, [=](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T *g = static_cast<const T*>(gate_up) + r * 2 * F, *u = g + F,
                *d = static_cast<const T*>(dy) + r * F;
        T *dg = static_cast<T*>(d_gate_up) + r * 2 * F, *du = dg + F;
        over_columns(0, F, [=](int64_t i, auto part) {
          const vf x = part.get(g + i), up = part.get(u + i), grad = part.get(d + i), s = vsigmoid(x);
          part.put(dg + i, (grad * up) * (s * fma(x, set1(1.0f) - s, set1(1.0f))));
          part.put(du + i, grad * (x * s));
        });
      }
    });
  });
}

}  // namespace shoal::kernels::SHOAL_ISA
