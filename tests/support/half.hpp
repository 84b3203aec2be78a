// Tensors of 16-bit types beside the same in FP32.
#pragma once
#include "shoal/ops/cast.hpp"
#include "shoal/ops/dropout.hpp"
#include "support/reference.hpp"

namespace shoal::test {

using ops::Dropout;

inline Tensor narrowed(const Stream& s, const Tensor& t, DType type) {
  const Tensor n = Tensor::empty(t.shape(), type, s);
  s.synchronize();
  ops::cast(t.dtype(), t.data(), type, n.data(), t.numel());
  return n;
}

inline Tensor widened(const Stream& s, const Tensor& t) { return narrowed(s, t, DType::f32); }

struct Both {
  Tensor half, wide;
  Both(const Stream& s, const Tensor& exact, DType type)
      : half(narrowed(s, exact, type)), wide(widened(s, half)) {}
};

}  // namespace shoal::test
