// Checks shared by the operations, and the way to the CPU's kernels.
#pragma once
#include <fmt/format.h>

#include "core/cpu/cpu_stream.hpp"
#include "kernels/common/isa.hpp"
#include "kernels/common/storage_code.hpp"
#include "shoal/core/error.hpp"
#include "shoal/core/tensor.hpp"
#include "shoal/ops/cast.hpp"

namespace shoal::ops {

// Throws ShapeError unless t is defined, of that dtype and shape: "layer_norm_forward: y: expected f32[2, 3], got ..."
// Its pieces (dimension 0) may lie apart: for kernels that go by its leading stride.
inline void expect_pieces(const char* op, const char* what, const Tensor& t, DType dtype,
                          const Shape& shape) {
  if (!t.defined() || t.dtype() != dtype || !(t.shape() == shape))
    throw ShapeError(
        fmt::format("{}: {}: expected {}{}, got {}", op, what, name(dtype), shape.str(), t.str()));
}
// And without gaps. (What is not checked by this is by Tensor::as.)
inline void expect(const char* op, const char* what, const Tensor& t, DType dtype, const Shape& shape) {
  expect_pieces(op, what, t, dtype, shape);
  if (!t.is_dense())
    throw ShapeError(fmt::format("{}: {}: expected {}{} without gaps, got {}", op, what, name(dtype),
                                 shape.str(), t.str()));
}

// Of a training type.
inline kernels::Storage storage_code(DType t) {
  return t == DType::bf16  ? kernels::Storage::bf16
         : t == DType::f16 ? kernels::Storage::f16
                           : kernels::Storage::f32;
}
// Of a tensor of one; throws ShapeError, naming what was expected, for others.
inline kernels::Storage storage_of(const char* op, const char* what, const Tensor& t) {
  if (t.defined() && is_training_type(t.dtype())) return storage_code(t.dtype());
  throw ShapeError(fmt::format("{}: {}: expected f32, bf16 or f16, got {}", op, what, t.str()));
}

// The device is the stream's: the one place that picks a backend for the operations.
template <class F>
void launch(const Stream& stream, F&& f) {
  cpu_stream(stream).submit(std::forward<F>(f));
}

}  // namespace shoal::ops
