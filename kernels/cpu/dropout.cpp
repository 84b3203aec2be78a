// Dropout, residual addition, sum and scaling. Bound by memory (8 to 12 bytes an element), but for the random
// numbers of a dropout, which cost some 5 operations an element: they are drawn 256 at a time into a window
// that stays in the first cache, and are never stored. Elementwise, so any split gives the same bits.
#include "kernels/cpu/dropout.hpp"

#include "kernels/common/parallel.hpp"
#include "kernels/common/philox.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

constexpr int64_t grain = 4096;

// y[i] = x[i] + dropout(z[i] + bias[i]) with x and bias optional (null: nothing is added), elements `first`
// on.
template <bool has_x, bool has_bias, bool drops>
void span(const float* x, const float* z, const float* bias, float* y, int64_t n, const DropoutArgs& args,
          uint64_t first) {
  RandomWindow window;
  const vi threshold = seti(static_cast<int32_t>(args.threshold));
  const vf factor = set1(args.scale);
  for (int64_t begin = 0; begin < n; begin += RandomWindow::capacity) {
    const int64_t end = n - begin < RandomWindow::capacity ? n : begin + RandomWindow::capacity;
    const uint32_t* bits = nullptr;
    if constexpr (drops) bits = window.fill(args.random, first + static_cast<uint64_t>(begin), end - begin);
    auto value = [&](int64_t i, auto get) {
      vf v = get(z + i);
      if constexpr (has_bias) v = v + get(bias + i);
      if constexpr (drops) v = drop(v, load(bits + (i - begin)), threshold, factor);
      if constexpr (has_x) v = get(x + i) + v;
      return v;
    };
    int64_t i = begin;
    for (; i + lanes <= end; i += lanes) store(y + i, value(i, [](const float* p) { return load(p); }));
    if (i < end)
      store_partial(y + i, value(i, [&](const float* p) { return load_partial(p, end - i); }), end - i);
  }
}

template <bool has_x, bool has_bias>
void span(const float* x, const float* z, const float* bias, float* y, int64_t n, const DropoutArgs& args,
          int64_t at) {
  const uint64_t first = args.first + static_cast<uint64_t>(at);
  if (args.active)
    span<has_x, has_bias, true>(x, z, bias, y, n, args, first);
  else
    span<has_x, has_bias, false>(x, z, bias, y, n, args, first);
}

}  // namespace

void dropout(const float* x, float* y, int64_t n, const DropoutArgs& args) {
  parallel_blocks(n, grain, n * 8, [&](int64_t begin, int64_t end) {
    span<false, false>(nullptr, x + begin, nullptr, y + begin, end - begin, args, begin);
  });
}

void residual_forward(const float* x, const float* z, const float* bias, float* y, int64_t rows,
                      int64_t hidden, const DropoutArgs& args) {
  if (bias == nullptr) {
    parallel_blocks(rows * hidden, grain, rows * hidden * 12, [&](int64_t begin, int64_t end) {
      span<true, false>(x + begin, z + begin, nullptr, y + begin, end - begin, args, begin);
    });
    return;
  }
  const int64_t rows_a_block = hidden < grain ? grain / (hidden > 0 ? hidden : 1) : 1;
  parallel_blocks(rows, rows_a_block, rows * hidden * 12, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t at = r * hidden;
      span<true, true>(x + at, z + at, bias, y + at, hidden, args, at);
    }
  });
}

void add(float* y, const float* x, int64_t n) {
  parallel_blocks(n, grain, n * 12, [=](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + lanes <= end; i += lanes) store(y + i, load(y + i) + load(x + i));
    for (; i < end; ++i) y[i] = y[i] + x[i];
  });
}

void scale(float* x, float factor, int64_t n) {
  const vf f = set1(factor);
  parallel_blocks(n, grain, n * 8, [=](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + lanes <= end; i += lanes) store(x + i, load(x + i) * f);
    for (; i < end; ++i) x[i] = x[i] * factor;
  });
}

}  // namespace shoal::kernels::SHOAL_ISA
