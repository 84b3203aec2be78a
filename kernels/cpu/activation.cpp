// GELU. Bound by memory when the array is large: forward reads 4 and writes 4 bytes an element for some 25
// operations; no reduction, so any split gives the same bits.
#include "kernels/cpu/activation.hpp"

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

}  // namespace shoal::kernels::SHOAL_ISA
