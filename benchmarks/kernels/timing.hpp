// The least time of some repetitions: on a shared machine the others measure its other users.
#pragma once
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "shoal/core/tensor.hpp"
#include "shoal/core/threads.hpp"
#include "shoal/ops/cast.hpp"

// With one thread the processor's time, which waiting for the processor does not lengthen.
inline double seconds_now() {
  timespec t;
  clock_gettime(shoal::num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

template <class F>
double least_seconds(int repetitions, const F& f) {
  double least = 1e30;
  for (int i = 0; i <= repetitions; ++i) {
    const double start = seconds_now();
    f();
    if (i > 0) least = std::min(least, seconds_now() - start);
  }
  return least;
}

// Numbers of the size that training has: large ones would make exp and GELU work on denormals.
inline shoal::Tensor numbers(const shoal::Stream& s, const shoal::Shape& shape, float size,
                             shoal::DType type = shoal::DType::f32) {
  const shoal::Tensor t = shoal::Tensor::empty(shape, shoal::DType::f32, s);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.as<float>()[i] = (static_cast<float>((i * 2654435761LL) % 1000) / 500.0f - 1.0f) * size;
  if (type == shoal::DType::f32) return t;
  const shoal::Tensor stored = shoal::Tensor::empty(shape, type, s);
  s.synchronize();
  shoal::ops::cast(t.dtype(), t.data(), type, stored.data(), t.numel());
  return stored;
}

// One of f32, bf16 and f16; anything else is f32.
inline shoal::DType type_named(const char* text) {
  for (const shoal::DType type : {shoal::DType::bf16, shoal::DType::f16})
    if (shoal::name(type) == std::string_view(text)) return type;
  return shoal::DType::f32;
}
