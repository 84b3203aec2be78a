// The tree's sum of n arrays. Bound by memory: each source is read once and the result written once, n + 1
// times the element size for n - 1 operations, so every partial sum stays in registers (FP32 sums of up to 8
// sources, which is what ranks of one host and gradient pieces mostly are) or in blocks of 256 elements that
// stay in the first-level cache (all else). Each element's operations are the same wherever it lies, so any
// split gives the same bits. 16-bit floats become FP32 on the way in and are rounded on the way out only.
#include "kernels/cpu/reduce.hpp"

#include "kernels/common/half.hpp"
#include "kernels/common/parallel.hpp"
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

// -- one block: sources are taken in order; a binary counter says which partial sums are complete
// -------------
template <class Storage, class Op>
void combine_block(const void* const* sources, int n, void* dst, int64_t at, int64_t len, int divisor,
                   const double* scales) {
  using Value = typename Storage::Value;
  using Stored = typename Storage::Stored;
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
  Stored* out = static_cast<Stored*>(dst) + at;
  if (static_cast<const void*>(result) != out) Storage::store(result, out, len);
}

template <class Storage, class Op>
void combine_all(const void* const* sources, int n, void* dst, int64_t count, int divisor,
                 const double* scales) {
  parallel_blocks(count, grain, count * (n + 1) * static_cast<int64_t>(sizeof(typename Storage::Stored)),
                  [=](int64_t begin, int64_t end) {
                    for (int64_t at = begin; at < end; at += block)
                      combine_block<Storage, Op>(sources, n, dst, at, end - at < block ? end - at : block,
                                                 divisor, scales);
                  });
}

template <class Storage>
void combine_any(int op, const void* const* sources, int n, void* dst, int64_t count, int divisor,
                 const double* scales) {
  switch (op) {
    case 0: return combine_all<Storage, Sum>(sources, n, dst, count, divisor, scales);
    case 1: return combine_all<Storage, Min>(sources, n, dst, count, divisor, scales);
    case 2: return combine_all<Storage, Max>(sources, n, dst, count, divisor, scales);
    default: return combine_all<Storage, Product>(sources, n, dst, count, divisor, scales);
  }
}

// -- FP32 sums in registers ---------------------------------------------------------------------
constexpr int left_half(int n) {
  int h = 1;
  while (2 * h < n) h *= 2;
  return h;
}
template <int n, class Load>
SHOAL_INLINE vf tree(const float* const* sources, const Load& get) {
  if constexpr (n == 1) {
    return get(sources[0]);
  } else {
    constexpr int h = left_half(n);
    return tree<h>(sources, get) + tree<n - h>(sources + h, get);
  }
}

template <int n>
void sum_f32(const void* const* given, void* dst, int64_t count, int divisor) {
  parallel_blocks(count, grain, count * (n + 1) * 4, [=](int64_t begin, int64_t end) {
    const float* sources[n];
    for (int s = 0; s < n; ++s) sources[s] = static_cast<const float*>(given[s]);
    float* out = static_cast<float*>(dst);
    const vf d = set1(static_cast<float>(divisor));
    int64_t i = begin;
    if (divisor == 1)
      for (; i + lanes <= end; i += lanes)
        store(out + i, tree<n>(sources, [i](const float* p) { return load(p + i); }));
    else
      for (; i + lanes <= end; i += lanes)
        store(out + i, tree<n>(sources, [i](const float* p) { return load(p + i); }) / d);
    if (i < end) {
      const vf sum = tree<n>(sources, [=](const float* p) { return load_partial(p + i, end - i); });
      store_partial(out + i, divisor == 1 ? sum : sum / d, end - i);
    }
  });
}

}  // namespace

void combine_f32(int op, const void* const* sources, int n, void* dst, int64_t count, int divisor,
                 const double* scales) {
  if (op == 0 && !scales) switch (n) {
      case 2: return sum_f32<2>(sources, dst, count, divisor);
      case 3: return sum_f32<3>(sources, dst, count, divisor);
      case 4: return sum_f32<4>(sources, dst, count, divisor);
      case 5: return sum_f32<5>(sources, dst, count, divisor);
      case 6: return sum_f32<6>(sources, dst, count, divisor);
      case 7: return sum_f32<7>(sources, dst, count, divisor);
      case 8: return sum_f32<8>(sources, dst, count, divisor);
      default: break;
    }
  combine_any<Plain<float>>(op, sources, n, dst, count, divisor, scales);
}
void combine_f64(int op, const void* const* sources, int n, void* dst, int64_t count, int divisor,
                 const double* scales) {
  combine_any<Plain<double>>(op, sources, n, dst, count, divisor, scales);
}
void combine_f16(int op, const void* const* sources, int n, void* dst, int64_t count, int divisor,
                 const double* scales) {
  combine_any<Half<f16_to_f32, f32_to_f16>>(op, sources, n, dst, count, divisor, scales);
}
void combine_bf16(int op, const void* const* sources, int n, void* dst, int64_t count, int divisor,
                  const double* scales) {
  combine_any<Half<bf16_to_f32, f32_to_bf16>>(op, sources, n, dst, count, divisor, scales);
}
void combine_i32(int op, const void* const* sources, int n, void* dst, int64_t count, int divisor,
                 const double* scales) {
  combine_any<Plain<int32_t>>(op, sources, n, dst, count, divisor, scales);
}
void combine_i64(int op, const void* const* sources, int n, void* dst, int64_t count, int divisor,
                 const double* scales) {
  combine_any<Plain<int64_t>>(op, sources, n, dst, count, divisor, scales);
}
void combine_u8(int op, const void* const* sources, int n, void* dst, int64_t count, int divisor,
                const double* scales) {
  combine_any<Plain<uint8_t>>(op, sources, n, dst, count, divisor, scales);
}

}  // namespace shoal::kernels::SHOAL_ISA
