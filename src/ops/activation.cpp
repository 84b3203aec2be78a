#include "shoal/ops/activation.hpp"

#include <algorithm>
#include <array>

#include "kernels/cpu/activation.hpp"
#include "ops/dispatch.hpp"

namespace shoal::ops {
namespace {

// The shape of y for gate_up [..., 2 F]; throws ShapeError where the last extent is odd.
Shape half_of(const char* op, const Tensor& gate_up) {
  const int rank = gate_up.shape().rank();
  if (!gate_up.defined() || rank < 1 || gate_up.dim(-1) % 2 != 0)
    throw ShapeError(fmt::format("{}: gate_up: expected [..., 2 F], got {}", op, gate_up.str()));
  gate_up.require_dense();
  std::array<std::int64_t, Shape::max_rank> extents{};
  std::copy(gate_up.shape().begin(), gate_up.shape().end(), extents.begin());
  extents[rank - 1] /= 2;
  return Shape(extents.data(), rank);
}

std::int64_t rows_of(const Shape& shape) {
  std::int64_t n = 1;
  for (int i = 0; i + 1 < shape.rank(); ++i) n *= shape[i];
  return n;
}

}  // namespace

void gelu_forward(const Stream& stream, const Tensor& x, const Tensor& y) {
  const kernels::Storage type = storage_of("gelu_forward", "x", x);
  x.require_dense();
  expect("gelu_forward", "y", y, x.dtype(), x.shape());
  launch(stream, [=] { SHOAL_PICK(gelu_forward)(type, x.data(), y.data(), x.numel()); });
}

void gelu_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& dx) {
  const kernels::Storage type = storage_of("gelu_backward", "x", x);
  x.require_dense();
  expect("gelu_backward", "dy", dy, x.dtype(), x.shape());
  expect("gelu_backward", "dx", dx, x.dtype(), x.shape());
  launch(stream, [=] { SHOAL_PICK(gelu_backward)(type, dy.data(), x.data(), dx.data(), x.numel()); });
}

void swiglu_forward(const Stream& stream, const Tensor& gate_up, const Tensor& y) {
  const Shape half = half_of("swiglu_forward", gate_up);
  const kernels::Storage type = storage_of("swiglu_forward", "gate_up", gate_up);
  expect("swiglu_forward", "y", y, gate_up.dtype(), half);
  launch(stream, [=] {
    SHOAL_PICK(swiglu_forward)(type, gate_up.data(), y.data(), rows_of(half), half[half.rank() - 1]);
  });
}

void swiglu_backward(const Stream& stream, const Tensor& dy, const Tensor& gate_up, const Tensor& d_gate_up) {
  const Shape half = half_of("swiglu_backward", gate_up);
  const kernels::Storage type = storage_of("swiglu_backward", "gate_up", gate_up);
  expect("swiglu_backward", "dy", dy, gate_up.dtype(), half);
  expect("swiglu_backward", "d_gate_up", d_gate_up, gate_up.dtype(), gate_up.shape());
  launch(stream, [=] {
    SHOAL_PICK(swiglu_backward)
    (type, dy.data(), gate_up.data(), d_gate_up.data(), rows_of(half), half[half.rank() - 1]);
  });
}

}  // namespace shoal::ops
