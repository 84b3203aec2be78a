// Small vectors of parameters (norms, biases) as FP32, whatever they are stored as. Included only by kernels/cpu/*.cpp.
#pragma once
#include "kernels/common/columns.hpp"
#include "kernels/common/scratch.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

// to[i] = p[i]
inline void widen(const void* p, Storage type, int64_t n, float* to) {
  with_storage(type, [&](auto* t) {
    const auto* from = static_cast<decltype(t)>(const_cast<void*>(p));
    over_columns(0, n, [=](int64_t i, auto part) { part.put(to + i, part.get(from + i)); });
  });
}

// The vector itself where it is FP32, or null; else a copy in `to`.
inline const float* widened(const void* p, Storage type, int64_t n, float* to) {
  if (p == nullptr || type == Storage::f32) return static_cast<const float*>(p);
  widen(p, type, n, to);
  return to;
}

}  // namespace
}  // namespace shoal::kernels::SHOAL_ISA
