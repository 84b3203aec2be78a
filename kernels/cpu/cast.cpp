// FP32, BF16 and FP16 to one another: 2 bytes read and 4 written an element, or the reverse, and a few operations on
// sixteen at a time: bound by memory. Stochastic rounding draws a number an element, some five operations more.
#include "kernels/cpu/cast.hpp"

#include "kernels/common/columns.hpp"
#include "kernels/common/parallel.hpp"
#include "kernels/common/philox.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

template <class From, class To>
void copy_as(const From* from, To* to, int64_t begin, int64_t end) {
  over_columns(begin, end, [=](int64_t i, auto part) { part.put(to + i, part.get(from + i)); });
}

// body(from, to) with their types.
template <class Body>
void typed(Storage from_type, const void* from, Storage to_type, void* to, const Body& body) {
  with_storage(from_type, [&](auto* f) {
    with_storage(to_type, [&](auto* t) {
      body(static_cast<const __typeof__(*f)*>(from), static_cast<__typeof__(*t)*>(to));
    });
  });
}

// Adding a random number below one unit of the last place that is kept, and cutting off: up with the probability of
// the distance. What nearest rounding takes to infinity, and NaN, stay as that says; nothing else becomes infinite.
void draw_bf16(const float* x, const uint32_t* bits, bf16* y, int64_t n) {
  uint16_t nearest[lanes];
  f32_to_bf16(x, nearest, n);
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t u = __builtin_bit_cast(uint32_t, x[i]);
    const uint32_t drawn = (u + (bits[i] & 0xffffu)) >> 16;
    y[i].bits = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f7f0000u ? nearest[i] : drawn);
  }
}

// FP16 drops 13 bits of a normal number; a subnormal is cut at the unit of 2^-24, which multiplies exactly. No
// branches, so that the compiler makes vectors of it.
void draw_f16(const float* x, const uint32_t* bits, f16* y, int64_t n) {
  constexpr uint32_t least_normal = 0x38800000u, largest = 0x477fe000u, first_infinite = 0x477ff000u;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t u = __builtin_bit_cast(uint32_t, x[i]), a = u & 0x7fffffffu;
    const bool small = a < least_normal;
    const uint32_t dropped = a & 0x1fffu;
    const uint32_t normal = ((a - (112u << 23)) >> 13) + (bits[i] >> 19 < dropped ? 1u : 0u);
    const float units = small ? __builtin_bit_cast(float, a) * 0x1p24f : 0.0f;
    const int32_t whole = static_cast<int32_t>(units);
    const float number = static_cast<float>(static_cast<int32_t>(bits[i] >> 8)) * 0x1p-24f;
    const uint32_t subnormal =
        static_cast<uint32_t>(whole) + (number < units - static_cast<float>(whole) ? 1u : 0u);
    const uint32_t nan = 0x7e00u | (a >> 13 & 0x3ffu);
    const uint32_t large = a > 0x7f800000u ? nan : a < first_infinite ? 0x7bffu : 0x7c00u;
    const uint32_t h = small ? subnormal : a < largest ? normal : large;
    y[i].bits = static_cast<uint16_t>(h | (u >> 16 & 0x8000u));
  }
}

}  // namespace

void cast(Storage from_type, const void* from, Storage to_type, void* to, int64_t n) {
  typed(from_type, from, to_type, to, [=](auto* f, auto* t) { copy_as(f, t, 0, n); });
}

void convert(Storage from_type, const void* from, Storage to_type, void* to, int64_t n) {
  typed(from_type, from, to_type, to, [=](auto* f, auto* t) {
    parallel_blocks(n, 16384, n * 6, [=](int64_t begin, int64_t end) { copy_as(f, t, begin, end); });
  });
}

void round_stochastic(const float* x, Storage type, void* y, int64_t n, const RandomArgs& random,
                      uint64_t first) {
  parallel_blocks(n, 4096, n * 12, [=](int64_t begin, int64_t end) {
    RandomWindow window;
    for (int64_t at = begin; at < end; at += RandomWindow::capacity) {
      const int64_t stop = end - at < RandomWindow::capacity ? end : at + RandomWindow::capacity;
      const uint32_t* bits = window.fill(random, first + static_cast<uint64_t>(at), stop - at);
      for (int64_t i = at; i < stop; i += lanes) {
        const int64_t count = stop - i < lanes ? stop - i : lanes;
        if (type == Storage::bf16)
          draw_bf16(x + i, bits + (i - at), static_cast<bf16*>(y) + i, count);
        else
          draw_f16(x + i, bits + (i - at), static_cast<f16*>(y) + i, count);
      }
    }
  });
}

}  // namespace shoal::kernels::SHOAL_ISA
