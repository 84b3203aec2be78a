// Exact values in tensors of any dtype: small whole numbers, which every dtype holds.
#pragma once
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/core/tensor.hpp"

namespace shoal::contract {

inline const Stream& stream() {
  static thread_local const Stream s = Stream::create({});
  return s;
}

// Where tensors come from, if not from the stream's allocator.
inline std::shared_ptr<Allocator>& memory() {
  static std::shared_ptr<Allocator> allocator;
  return allocator;
}

inline Tensor make(DType dtype, std::int64_t count) {
  return memory() ? Tensor::empty({count}, dtype, memory()) : Tensor::empty({count}, dtype, stream());
}

inline std::uint16_t bf16_bits(float x) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

// An element as it is stored, made from a double and read as one.
template <class T>
struct Plain {
  T bits;
  explicit Plain(double x) : bits(static_cast<T>(x)) {}
  double get() const { return static_cast<double>(bits); }
};
struct Half {
  _Float16 bits;
  explicit Half(double x) : bits(static_cast<_Float16>(static_cast<float>(x))) {}
  double get() const { return static_cast<float>(bits); }
};
struct Brain {
  std::uint16_t bits;
  explicit Brain(double x) : bits(bf16_bits(static_cast<float>(x))) {}
  double get() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

// f(pointer to the elements), of the type that dtype stores.
template <class F>
void with_elements(const Tensor& t, const F& f) {
  switch (t.dtype()) {
    case DType::f32: return f(static_cast<Plain<float>*>(t.data()));
    case DType::f64: return f(static_cast<Plain<double>*>(t.data()));
    case DType::f16: return f(static_cast<Half*>(t.data()));
    case DType::bf16: return f(static_cast<Brain*>(t.data()));
    case DType::i32: return f(static_cast<Plain<std::int32_t>*>(t.data()));
    case DType::i64: return f(static_cast<Plain<std::int64_t>*>(t.data()));
    case DType::u8: return f(static_cast<Plain<std::uint8_t>*>(t.data()));
    case DType::u16: return f(static_cast<Plain<std::uint16_t>*>(t.data()));
    case DType::u32: return f(static_cast<Plain<std::uint32_t>*>(t.data()));
  }
}

inline void put(const Tensor& t, std::int64_t i, double value) {
  with_elements(t, [&]<class E>(E* p) { p[i] = E(value); });
}

inline double get(const Tensor& t, std::int64_t i) {
  double value = 0;
  with_elements(t, [&](const auto* p) { value = p[i].get(); });
  return value;
}

template <class F>
void fill(const Tensor& t, const F& value) {
  const std::int64_t n = t.numel();
  with_elements(t, [&]<class E>(E* p) {
    for (std::int64_t i = 0; i < n; ++i) p[i] = E(static_cast<double>(value(i)));
  });
}

template <class F>
Tensor filled(DType dtype, std::int64_t count, const F& value) {
  const Tensor t = make(dtype, count);
  fill(t, value);
  return t;
}

// Compares with the value as the dtype stores it; reports the first difference only.
template <class F>
void expect_values(const Tensor& t, const F& value, const std::string& what) {
  const std::int64_t n = t.numel();
  with_elements(t, [&]<class E>(const E* p) {
    for (std::int64_t i = 0; i < n; ++i) {
      const double expected = E(static_cast<double>(value(i))).get();
      if (p[i].get() == expected) continue;
      ADD_FAILURE() << what << ": element " << i << " of " << t.str() << " is " << p[i].get() << ", expected "
                    << expected;
      return;
    }
  });
}

inline void expect_all(const Tensor& t, double value, const std::string& what) {
  expect_values(
      t, [&](std::int64_t) { return value; }, what);
}

constexpr std::int64_t big = 1000003;
constexpr std::int64_t small_counts[] = {0, 1, 2, 3, 31, 33};
constexpr DType arithmetic[] = {DType::f32, DType::f64, DType::f16, DType::bf16,
                                DType::i32, DType::i64, DType::u8};
constexpr DType all_dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32,
                                DType::i64, DType::u8,  DType::u16, DType::u32};
inline bool floating(DType t) {
  return t == DType::f32 || t == DType::f64 || t == DType::f16 || t == DType::bf16;
}

// The counts of the `index`-th combination (of dtype, operation, ...) of a check on n ranks. Every combination meets
// every small count everywhere. The big one costs a second for all of them: each meets it on one rank, which is `self` or
// `local`, and on two where every_big() says so (threads and mpi); on more every seventh does, another one on each number
// of ranks, and without every_big() (processes and hosts, slower where they outnumber the cores) on up to three.
inline bool& every_big() {
  static bool every = false;
  return every;
}
inline std::vector<std::int64_t> counts_of(int index, int n) {
  std::vector<std::int64_t> counts(std::begin(small_counts), std::end(small_counts));
  const bool some = index % 7 == n % 7 && (n <= 3 || every_big());
#ifdef SHOAL_SANITIZED
  const bool all = false;  // ten times slower there
#else
  const bool all = n == 1 || (n == 2 && every_big());
#endif
  if (all || some) counts.push_back(big);
  return counts;
}

}  // namespace shoal::contract
