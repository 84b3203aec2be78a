// Dropout, residual addition, sum and scaling. Bound by memory (8 to 12 bytes an element), but for the random
// numbers of a dropout, which cost some 5 operations an element: they are drawn 256 at a time into a window
// that stays in the first cache, and are never stored. Elementwise, so any split gives the same bits.
#include "kernels/cpu/dropout.hpp"

#include "kernels/common/columns.hpp"
#include "kernels/common/parallel.hpp"
#include "kernels/common/philox.hpp"
#include "kernels/common/widen.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

constexpr int64_t grain = 4096;

template <class A, class B>
constexpr bool same = false;
template <class A>
constexpr bool same<A, A> = true;

// y[i] = x[i] + dropout(z[i] + bias[i]) with x and bias optional (null: nothing is added), elements `first` on. What
// dropout reads is rounded to T: nothing where z is of T and nothing was added to it.
template <bool has_x, bool has_bias, bool drops, class T, class Z>
void span(const T* x, const Z* z, const float* bias, T* y, int64_t n, const DropoutArgs& args,
          uint64_t first) {
  RandomWindow window;
  const vi threshold = seti(static_cast<int32_t>(args.threshold));
  const vf factor = set1(args.scale);
  for (int64_t begin = 0; begin < n; begin += RandomWindow::capacity) {
    const int64_t end = n - begin < RandomWindow::capacity ? n : begin + RandomWindow::capacity;
    const uint32_t* bits = nullptr;
    if constexpr (drops) bits = window.fill(args.random, first + static_cast<uint64_t>(begin), end - begin);
    over_columns(begin, end, [&](int64_t i, auto part) {
      vf v = part.get(z + i);
      if constexpr (has_bias) v = v + part.get(bias + i);
      if constexpr (has_x && !(same<T, Z> && !has_bias)) v = rounded<T>(v);
      if constexpr (drops) v = drop(v, load(bits + (i - begin)), threshold, factor);
      if constexpr (has_x) v = part.get(x + i) + v;
      part.put(y + i, v);
    });
  }
}

template <bool has_x, bool has_bias, class T, class Z>
void span(const T* x, const Z* z, const float* bias, T* y, int64_t n, const DropoutArgs& args, int64_t at) {
  const uint64_t first = args.first + static_cast<uint64_t>(at);
  if (args.active)
    span<has_x, has_bias, true>(x, z, bias, y, n, args, first);
  else
    span<has_x, has_bias, false>(x, z, bias, y, n, args, first);
}

template <class T, class Z>
void residual(const T* x, const Z* z, const float* bias, T* y, const ResidualArgs& a) {
  const int64_t hidden = a.hidden, n = a.rows * hidden;
  if (bias == nullptr) {
    parallel_blocks(n, grain, n * 12, [&](int64_t begin, int64_t end) {
      span<true, false>(x + begin, z + begin, nullptr, y + begin, end - begin, a.dropout, begin);
    });
    return;
  }
  const int64_t rows_a_block = hidden < grain ? grain / (hidden > 0 ? hidden : 1) : 1;
  parallel_blocks(a.rows, rows_a_block, n * 12, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t at = r * hidden;
      span<true, true>(x + at, z + at, bias, y + at, hidden, a.dropout, at);
    }
  });
}

}  // namespace

void dropout(Storage type, const void* x, void* y, int64_t n, const DropoutArgs& args) {
  with_storage(type, [&](auto* t) {
    using T = __typeof__(*t);
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    parallel_blocks(n, grain, n * 8, [&](int64_t begin, int64_t end) {
      span<false, false>(static_cast<const T*>(nullptr), from + begin, nullptr, to + begin, end - begin, args,
                         begin);
    });
  });
}

int residual_forward(const ResidualArgs& a) {
  float* room = a.bias == nullptr || a.bias_type == Storage::f32 ? nullptr : thread_scratch(a.hidden);
  if (a.bias != nullptr && a.bias_type != Storage::f32 && room == nullptr) return -1;
  const float* bias = widened(a.bias, a.bias_type, a.hidden, room);
  with_storage(a.type, [&](auto* t) {
    using T = __typeof__(*t);
    const T* x = static_cast<const T*>(a.x);
    T* y = static_cast<T*>(a.y);
    if (a.z_type == Storage::f32)
      residual(x, static_cast<const float*>(a.z), bias, y, a);
    else
      residual(x, static_cast<const T*>(a.z), bias, y, a);
  });
  return 0;
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
