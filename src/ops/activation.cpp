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
  if (!gate_up.defined() || gate_up.dtype() != DType::f32 || rank < 1 || gate_up.dim(-1) % 2 != 0)
    throw ShapeError(fmt::format("{}: gate_up: expected f32 [..., 2 F], got {}", op, gate_up.str()));
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
  x.require(DType::f32);
  expect("gelu_forward", "y", y, DType::f32, x.shape());
  launch(stream, [=] { SHOAL_PICK(gelu_forward)(x.as<float>(), y.as<float>(), x.numel()); });
}

void gelu_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& dx) {
  x.require(DType::f32);
  expect("gelu_backward", "dy", dy, DType::f32, x.shape());
  expect("gelu_backward", "dx", dx, DType::f32, x.shape());
  launch(stream, [=] {
    SHOAL_PICK(gelu_backward)(dy.as<float>(), x.as<float>(), dx.as<float>(), x.numel());
  });
}

void swiglu_forward(const Stream& stream, const Tensor& gate_up, const Tensor& y) {
  const Shape half = half_of("swiglu_forward", gate_up);
  expect("swiglu_forward", "y", y, DType::f32, half);
  launch(stream, [=] {
    SHOAL_PICK(swiglu_forward)(gate_up.as<float>(), y.as<float>(), rows_of(half), half[half.rank() - 1]);
  });
}

void swiglu_backward(const Stream& stream, const Tensor& dy, const Tensor& gate_up, const Tensor& d_gate_up) {
  const Shape half = half_of("swiglu_backward", gate_up);
  expect("swiglu_backward", "dy", dy, DType::f32, half);
  expect("swiglu_backward", "d_gate_up", d_gate_up, DType::f32, gate_up.shape());
  launch(stream, [=] {
    SHOAL_PICK(swiglu_backward)
    (dy.as<float>(), gate_up.as<float>(), d_gate_up.as<float>(), rows_of(half), half[half.rank() - 1]);
  });
}

}  // namespace shoal::ops
