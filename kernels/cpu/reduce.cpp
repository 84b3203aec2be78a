// The tree's sum of n arrays, written to m arrays. Bound by memory: n arrays read and m written for n - 1 operations an
// element, so every partial sum stays in registers (sums of up to 8 arrays of FP32 and BF16, which is what ranks of one
// host and gradient pieces mostly are) or in blocks of 256 elements that stay in the first-level cache (all else), and
// the m copies are written in the same pass. Large results can be written past the caches, which saves reading each line
// before it is overwritten: m arrays less. Each element's operations are the same wherever it lies, so any split gives
// the same bits. 16-bit floats become FP32 on the way in and are rounded on the way out only.
#include "kernels/cpu/reduce.hpp"

#include "kernels/common/half.hpp"
#include "kernels/common/parallel.hpp"
#include "kernels/common/stored.hpp"
#include "kernels/common/vec.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

constexpr int64_t block = 256;    // elements
constexpr int64_t grain = 16384;  // elements a thread takes at a time
constexpr int levels = 20;        // depth of the stack of partial sums: 2^19 sources

// -- operations on one element ------------------------------------------------------------------
// Integers wrap: their arithmetic is done unsigned.
template <class T>
struct Unsigned {
  using type = T;
};
template <>
struct Unsigned<int32_t> {
  using type = uint32_t;
};
template <>
struct Unsigned<int64_t> {
  using type = uint64_t;
};

struct Sum {
  template <class T>
  static T apply(T a, T b) {
    using U = typename Unsigned<T>::type;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
};
struct Product {
  template <class T>
  static T apply(T a, T b) {
    using U = typename Unsigned<T>::type;
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  }
};
// A NaN on either side is the result.
struct Min {
  template <class T>
  static T apply(T a, T b) {
    return ((a < b) | (a != a)) ? a : b;
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return ((a > b) | (a != a)) ? a : b;
  }
};

// -- how an element is stored -------------------------------------------------------------------
template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  static const T* load(const T* p, T*, int64_t) { return p; }
  static void store(const T* values, T* p, int64_t n) { memcpy(p, values, sizeof(T) * n); }
};
template <void (*to_f32)(const uint16_t*, float*, int64_t),
          void (*from_f32)(const float*, uint16_t*, int64_t)>
struct Half {
  using Stored = uint16_t;
  using Value = float;
  static const float* load(const uint16_t* p, float* room, int64_t n) {
    to_f32(p, room, n);
    return room;
  }
  static void store(const float* values, uint16_t* p, int64_t n) { from_f32(values, p, n); }
};

inline bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 64 == 0; }

inline void copy_out(const void* from, void* to, int64_t bytes, bool past_caches) {
  int64_t done = 0;
  if (past_caches && aligned(to))
    for (; done + 64 <= bytes; done += 64)
      stream(reinterpret_cast<float*>(static_cast<char*>(to) + done),
             load(reinterpret_cast<const float*>(static_cast<const char*>(from) + done)));
  memcpy(static_cast<char*>(to) + done, static_cast<const char*>(from) + done, bytes - done);
}

// -- one block: sources are taken in order; a binary counter says which partial sums are complete
// -------------
template <class Storage, class Op>
void combine_block(const void* const* sources, int n, const CombineTo& to, int64_t at, int64_t len,
                   int divisor, const double* scales) {
  using Value = typename Storage::Value;
  using Stored = typename Storage::Stored;
  if (n == 1 && to.stream && divisor == 1 && !scales) {  // a copy
    for (int d = 0; d < to.copies; ++d)
      copy_out(static_cast<const Stored*>(sources[0]) + at, static_cast<Stored*>(to.dst[d]) + at,
               len * static_cast<int64_t>(sizeof(Stored)), true);
    return;
  }
  alignas(64) Value room[levels][block];
  const Value* sum[levels];
  int depth = 0;
  const auto join = [&] {  // the two topmost sums become one
    --depth;
    const Value* a = sum[depth - 1];
    const Value* b = sum[depth];
    Value* r = room[depth - 1];
    for (int64_t i = 0; i < len; ++i) r[i] = Op::apply(a[i], b[i]);
    sum[depth - 1] = r;
  };
  for (int s = 0; s < n; ++s) {
    sum[depth] = Storage::load(static_cast<const Stored*>(sources[s]) + at, room[depth], len);
    if (scales) {
      const Value scale = static_cast<Value>(scales[s]);
      const Value* given = sum[depth];
      for (int64_t i = 0; i < len; ++i) room[depth][i] = static_cast<Value>(given[i] * scale);
      sum[depth] = room[depth];
    }
    ++depth;
    for (unsigned complete = s; complete & 1u; complete >>= 1) join();
  }
  while (depth > 1) join();
  const Value* result = sum[0];
  if (divisor != 1) {
    const Value d = static_cast<Value>(divisor);
    for (int64_t i = 0; i < len; ++i) room[1][i] = static_cast<Value>(result[i] / d);
    result = room[1];
  }
  Stored* out = static_cast<Stored*>(to.dst[0]) + at;
  if (to.copies == 1 && !to.stream) {
    if (static_cast<const void*>(result) != out) Storage::store(result, out, len);
    return;
  }
  alignas(64) Stored stored[block];
  Storage::store(result, stored, len);
  for (int d = 0; d < to.copies; ++d)
    copy_out(stored, static_cast<Stored*>(to.dst[d]) + at, len * static_cast<int64_t>(sizeof(Stored)),
             to.stream);
}

template <class Storage, class Op>
void combine_all(const void* const* sources, int n, const CombineTo& to, int64_t count, int divisor,
                 const double* scales) {
  parallel_blocks(count, grain, count * (n + 1) * static_cast<int64_t>(sizeof(typename Storage::Stored)),
                  [=](int64_t begin, int64_t end) {
                    for (int64_t at = begin; at < end; at += block)
                      combine_block<Storage, Op>(sources, n, to, at, end - at < block ? end - at : block,
                                                 divisor, scales);
                    if (to.stream) stream_fence();
                  });
}

template <class Storage>
void combine_any(int op, const void* const* sources, int n, const CombineTo& to, int64_t count, int divisor,
                 const double* scales) {
  switch (op) {
    case 0: return combine_all<Storage, Sum>(sources, n, to, count, divisor, scales);
    case 1: return combine_all<Storage, Min>(sources, n, to, count, divisor, scales);
    case 2: return combine_all<Storage, Max>(sources, n, to, count, divisor, scales);
    default: return combine_all<Storage, Product>(sources, n, to, count, divisor, scales);
  }
}

// -- sums in registers --------------------------------------------------------------------------
constexpr int left_half(int n) {
  int h = 1;
  while (2 * h < n) h *= 2;
  return h;
}
template <class In, int n>
SHOAL_INLINE vf tree(const typename In::Stored* const* sources, int64_t i) {
  if constexpr (n == 1) {
    return In::get(sources[0] + i);
  } else {
    constexpr int h = left_half(n);
    return tree<In, h>(sources, i) + tree<In, n - h>(sources + h, i);
  }
}

// Elements [begin, end), whole vectors; m copies, or for m = 0 as many as are given. d: null, or what divides the sum.
template <class In, int n, int m, bool past_caches>
void sum_run(const typename In::Stored* const* sources, typename In::Stored* const* out, int copies,
             int64_t begin, int64_t end, const vf* d) {
  using Stored = typename In::Stored;
  const Stored* in[n];  // in registers
  Stored* to[m > 0 ? m : 1];
  for (int s = 0; s < n; ++s) in[s] = sources[s];
  for (int c = 0; c < m; ++c) to[c] = out[c];
  const auto sum = [&](int64_t i) __attribute__((always_inline)) {
    vf x = tree<In, n>(in, i);
    if (d) x = x / *d;
    return In::pack(x);
  };
  const auto put = [&](Stored * p, const typename In::Packed& x) __attribute__((always_inline)) {
    if constexpr (past_caches)
      In::put_past_caches(p, x);
    else
      In::put(p, x);
  };
  // A line at a time: so it leaves at once where it goes past the caches.
  constexpr int64_t line = 64 / sizeof(Stored);
  constexpr int vectors = line / lanes;
  int64_t i = begin;
  for (; i + line <= end; i += line) {
    typename In::Packed x[vectors];
    for (int v = 0; v < vectors; ++v) x[v] = sum(i + v * lanes);
    for (int c = 0; c < (m > 0 ? m : copies); ++c)
      for (int v = 0; v < vectors; ++v) put((m > 0 ? to[c] : out[c]) + i + v * lanes, x[v]);
  }
  for (; i < end; i += lanes) {
    const typename In::Packed x = sum(i);
    for (int c = 0; c < copies; ++c) put(out[c] + i, x);
  }
}

constexpr int most_copies = 8;

template <class In, int n, bool past_caches>
void sum_run_to(const typename In::Stored* const* sources, typename In::Stored* const* out, int copies,
                int64_t begin, int64_t end, const vf* d) {
  if (copies == n) return sum_run<In, n, n, past_caches>(sources, out, copies, begin, end, d);
  if (copies == 1) return sum_run<In, n, 1, past_caches>(sources, out, copies, begin, end, d);
  sum_run<In, n, 0, past_caches>(sources, out, copies, begin, end, d);
}

template <class In, int n>
void sum_in_registers(const void* const* given, const CombineTo& to, int64_t count, int divisor) {
  using Stored = typename In::Stored;
  parallel_blocks(count, grain, count * (n + to.copies) * static_cast<int64_t>(sizeof(Stored)),
                  [=](int64_t begin, int64_t end) {
                    const Stored* sources[n];
                    Stored* out[most_copies];
                    bool past_caches = to.stream;
                    for (int s = 0; s < n; ++s) sources[s] = static_cast<const Stored*>(given[s]);
                    for (int c = 0; c < to.copies; ++c) {
                      out[c] = static_cast<Stored*>(to.dst[c]);
                      past_caches = past_caches && aligned(out[c]);
                    }
                    const vf value = set1(static_cast<float>(divisor));
                    const vf* d = divisor == 1 ? nullptr : &value;
                    const int64_t whole = begin + (end - begin) / lanes * lanes;
                    if (past_caches) {
                      sum_run_to<In, n, true>(sources, out, to.copies, begin, whole, d);
                      stream_fence();
                    } else {
                      sum_run_to<In, n, false>(sources, out, to.copies, begin, whole, d);
                    }
                    if (whole == end) return;
                    // The rest, through the same instructions.
                    Stored room[n][lanes] = {}, last[1][lanes];
                    const Stored* rest[n];
                    for (int s = 0; s < n; ++s) {
                      memcpy(room[s], sources[s] + whole, sizeof(Stored) * (end - whole));
                      rest[s] = room[s];
                    }
                    Stored* to_last[1] = {last[0]};
                    sum_run<In, n, 1, false>(rest, to_last, 1, 0, lanes, d);
                    for (int c = 0; c < to.copies; ++c)
                      memcpy(out[c] + whole, last[0], sizeof(Stored) * (end - whole));
                  });
}

// False where the sum is not one of these.
template <class In>
bool sum_few(int op, const void* const* sources, int n, const CombineTo& to, int64_t count, int divisor,
             const double* scales) {
  if (op != 0 || scales || to.copies > most_copies) return false;
  switch (n) {
    case 2: sum_in_registers<In, 2>(sources, to, count, divisor); return true;
    case 3: sum_in_registers<In, 3>(sources, to, count, divisor); return true;
    case 4: sum_in_registers<In, 4>(sources, to, count, divisor); return true;
    case 5: sum_in_registers<In, 5>(sources, to, count, divisor); return true;
    case 6: sum_in_registers<In, 6>(sources, to, count, divisor); return true;
    case 7: sum_in_registers<In, 7>(sources, to, count, divisor); return true;
    case 8: sum_in_registers<In, 8>(sources, to, count, divisor); return true;
    default: return false;
  }
}

}  // namespace

void combine_f32(int op, const void* const* sources, int n, const CombineTo& to, int64_t count, int divisor,
                 const double* scales) {
  if (!sum_few<InF32>(op, sources, n, to, count, divisor, scales))
    combine_any<Plain<float>>(op, sources, n, to, count, divisor, scales);
}
void combine_f64(int op, const void* const* sources, int n, const CombineTo& to, int64_t count, int divisor,
                 const double* scales) {
  combine_any<Plain<double>>(op, sources, n, to, count, divisor, scales);
}
void combine_f16(int op, const void* const* sources, int n, const CombineTo& to, int64_t count, int divisor,
                 const double* scales) {
  combine_any<Half<f16_to_f32, f32_to_f16>>(op, sources, n, to, count, divisor, scales);
}
void combine_bf16(int op, const void* const* sources, int n, const CombineTo& to, int64_t count, int divisor,
                  const double* scales) {
  if (!sum_few<InBF16>(op, sources, n, to, count, divisor, scales))
    combine_any<Half<bf16_to_f32, f32_to_bf16>>(op, sources, n, to, count, divisor, scales);
}
void combine_i32(int op, const void* const* sources, int n, const CombineTo& to, int64_t count, int divisor,
                 const double* scales) {
  combine_any<Plain<int32_t>>(op, sources, n, to, count, divisor, scales);
}
void combine_i64(int op, const void* const* sources, int n, const CombineTo& to, int64_t count, int divisor,
                 const double* scales) {
  combine_any<Plain<int64_t>>(op, sources, n, to, count, divisor, scales);
}
void combine_u8(int op, const void* const* sources, int n, const CombineTo& to, int64_t count, int divisor,
                const double* scales) {
  combine_any<Plain<uint8_t>>(op, sources, n, to, count, divisor, scales);
}

}  // namespace shoal::kernels::SHOAL_ISA
