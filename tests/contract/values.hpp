// Exact values in tensors of any dtype: small whole numbers, which every dtype holds.
#pragma once
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>

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

inline void put(const Tensor& t, std::int64_t i, double value) {
  switch (t.dtype()) {
    case DType::f32: static_cast<float*>(t.data())[i] = static_cast<float>(value); break;
    case DType::f64: static_cast<double*>(t.data())[i] = value; break;
    case DType::f16:
      static_cast<_Float16*>(t.data())[i] = static_cast<_Float16>(static_cast<float>(value));
      break;
    case DType::bf16: static_cast<std::uint16_t*>(t.data())[i] = bf16_bits(static_cast<float>(value)); break;
    case DType::i32: static_cast<std::int32_t*>(t.data())[i] = static_cast<std::int32_t>(value); break;
    case DType::i64: static_cast<std::int64_t*>(t.data())[i] = static_cast<std::int64_t>(value); break;
    case DType::u8: static_cast<std::uint8_t*>(t.data())[i] = static_cast<std::uint8_t>(value); break;
    case DType::u16: static_cast<std::uint16_t*>(t.data())[i] = static_cast<std::uint16_t>(value); break;
    case DType::u32: static_cast<std::uint32_t*>(t.data())[i] = static_cast<std::uint32_t>(value); break;
  }
}

inline double get(const Tensor& t, std::int64_t i) {
  switch (t.dtype()) {
    case DType::f32: return static_cast<float*>(t.data())[i];
    case DType::f64: return static_cast<double*>(t.data())[i];
    case DType::f16: return static_cast<float>(static_cast<_Float16*>(t.data())[i]);
    case DType::bf16:
      return std::bit_cast<float>(static_cast<std::uint32_t>(static_cast<std::uint16_t*>(t.data())[i]) << 16);
    case DType::i32: return static_cast<std::int32_t*>(t.data())[i];
    case DType::i64: return static_cast<double>(static_cast<std::int64_t*>(t.data())[i]);
    case DType::u8: return static_cast<std::uint8_t*>(t.data())[i];
    case DType::u16: return static_cast<std::uint16_t*>(t.data())[i];
    case DType::u32: return static_cast<std::uint32_t*>(t.data())[i];
  }
  return 0;
}

template <class F>
Tensor filled(DType dtype, std::int64_t count, const F& value) {
  const Tensor t = make(dtype, count);
  for (std::int64_t i = 0; i < count; ++i) put(t, i, value(i));
  return t;
}

// Compares with the value as the dtype stores it; reports the first difference only.
template <class F>
void expect_values(const Tensor& t, const F& value, const std::string& what) {
  const Tensor one = make(t.dtype(), 1);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    put(one, 0, value(i));
    if (get(t, i) != get(one, 0)) {
      ADD_FAILURE() << what << ": element " << i << " of " << t.str() << " is " << get(t, i) << ", expected "
                    << get(one, 0);
      return;
    }
  }
}

constexpr std::int64_t counts[] = {0, 1, 31, 33, 257, 100003};
constexpr DType arithmetic[] = {DType::f32, DType::f64, DType::f16, DType::bf16,
                                DType::i32, DType::i64, DType::u8};

}  // namespace shoal::contract
