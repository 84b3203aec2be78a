// GELU and SwiGLU. Bound by memory when the array is large: GELU forward reads 4 and writes 4 bytes an
// element for some 25 operations, SwiGLU reads 8 and writes 4; no reduction, so any split gives the same
// bits.
#include "kernels/cpu/activation.hpp"

#include "kernels/common/columns.hpp"
#include "kernels/common/parallel.hpp"
#include "kernels/common/vec.hpp"

namespace shoal::kernels::SHOAL_ISA {

void gelu_forward(const float* x, float* y, int64_t n) {
  parallel_blocks(n, 4096, n * 8, [=](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + lanes <= end; i += lanes) store(y + i, vgelu(load(x + i)));
    if (i < end) store_partial(y + i, vgelu(load_partial(x + i, end - i)), end - i);
  });
}

void gelu_backward(const float* dy, const float* x, float* dx, int64_t n) {
  parallel_blocks(n, 4096, n * 12, [=](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + lanes <= end; i += lanes) store(dx + i, load(dy + i) * vgelu_derivative(load(x + i)));
    if (i < end)
      store_partial(dx + i, load_partial(dy + i, end - i) * vgelu_derivative(load_partial(x + i, end - i)),
                    end - i);
  });
}

// y [rows, F] = silu(gate) up.  gate_up [rows, 2 F].
void swiglu_forward(const float* gate_up, float* y, int64_t rows, int64_t F) {
  parallel_blocks(rows, F < 4096 ? 4096 / (F > 0 ? F : 1) : 1, rows * F * 12,
                  [=](int64_t begin, int64_t end) {
                    for (int64_t r = begin; r < end; ++r) {
                      const float *g = gate_up + r * 2 * F, *u = g + F;
                      float* out = y + r * F;
                      over_columns(0, F, [=](int64_t i, auto part) {
                        const vf x = part.get(g + i);
                        part.put(out + i, (x * vsigmoid(x)) * part.get(u + i));
                      });
                    }
                  });
}

// d gate = dy up s (1 + g (1 - s)), d up = dy g s, s = sigmoid(g). A column's two inputs are read before its
// two outputs are written, so d_gate_up may be gate_up.
void swiglu_backward(const float* dy, const float* gate_up, float* d_gate_up, int64_t rows, int64_t F) {
  parallel_blocks(
      rows, F < 4096 ? 4096 / (F > 0 ? F : 1) : 1, rows * F * 20, [=](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const float *g = gate_up + r * 2 * F, *u = g + F, *d = dy + r * F;
          float *dg = d_gate_up + r * 2 * F, *du = dg + F;
          over_columns(0, F, [=](int64_t i, auto part) {
            const vf x = part.get(g + i), up = part.get(u + i), grad = part.get(d + i), s = vsigmoid(x);
            part.put(dg + i, (grad * up) * (s * fma(x, set1(1.0f) - s, set1(1.0f))));
            part.put(du + i, grad * (x * s));
          });
        }
      });
}

}  // namespace shoal::kernels::SHOAL_ISA
