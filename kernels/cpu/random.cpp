// Philox numbers in bulk. Bound by arithmetic: some 5 operations a number against 4 bytes written.
#include "kernels/cpu/random.hpp"

#include "kernels/common/parallel.hpp"
#include "kernels/common/philox.hpp"

namespace shoal::kernels::SHOAL_ISA {

void random_bits(const RandomArgs& key, uint64_t first, uint32_t* out, int64_t n) {
  parallel_blocks(n, 4096, n * 8, [&](int64_t begin, int64_t end) {
    RandomWindow window;
    for (int64_t i = begin; i < end; i += RandomWindow::capacity) {
      const int64_t m = end - i < RandomWindow::capacity ? end - i : RandomWindow::capacity;
      memcpy(out + i, window.fill(key, first + static_cast<uint64_t>(i), m), static_cast<size_t>(m) * 4);
    }
  });
}

}  // namespace shoal::kernels::SHOAL_ISA
