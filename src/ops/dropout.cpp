#include "shoal/ops/dropout.hpp"

#include <array>

#include "kernels/cpu/dropout.hpp"
#include "ops/dispatch.hpp"
#include "ops/dropout_args.hpp"

namespace shoal::ops {
namespace {

// [tokens, hidden], whole samples of seq tokens where a mask is drawn.
void check(const char* op, const Tensor& x, const Dropout& dropout, std::int64_t seq) {
  if (!x.defined() || x.shape().rank() != 2)
    throw ShapeError(fmt::format("{}: x: expected [tokens, hidden], got {}", op, x.str()));
  x.require_dense();
  if (dropout.p != 0.0 && (seq < 1 || dropout.first_sample < 0))
    throw ShapeError(fmt::format("{}: seq = {}, first_sample = {}: expected at least 1 and 0", op, seq,
                                 dropout.first_sample));
}

void map(const char* op, const Stream& stream, const Tensor& x, const Dropout& dropout, std::int64_t seq,
         const Tensor& y) {
  check(op, x, dropout, seq);
  const kernels::Storage type = storage_of(op, "x", x);
  expect(op, "result", y, x.dtype(), x.shape());
  const auto args = dropout_args(dropout, seq * x.dim(1));
  launch(stream, [=] { SHOAL_PICK(dropout)(type, x.data(), y.data(), x.numel(), args); });
}

}  // namespace

void dropout_forward(const Stream& stream, const Tensor& x, const Dropout& dropout, std::int64_t seq,
                     const Tensor& y) {
  map("dropout_forward", stream, x, dropout, seq, y);
}

void dropout_backward(const Stream& stream, const Tensor& dy, const Dropout& dropout, std::int64_t seq,
                      const Tensor& dx) {
  map("dropout_backward", stream, dy, dropout, seq, dx);
}

void residual_forward(const Stream& stream, const Tensor& x, const Tensor& z, const Tensor& bias,
                      const Dropout& dropout, std::int64_t seq, const Tensor& y) {
  const char* op = "residual_forward";
  check(op, x, dropout, seq);
  kernels::ResidualArgs a{};
  a.type = storage_of(op, "x", x);
  a.z_type = storage_of(op, "z", z);
  if (z.dtype() != x.dtype() && z.dtype() != DType::f32)
    throw ShapeError(
        fmt::format("{}: z: expected {} or f32, as x {}, got {}", op, name(x.dtype()), x.str(), z.str()));
  expect(op, "z", z, z.dtype(), x.shape());
  expect(op, "y", y, x.dtype(), x.shape());
  if (bias.defined()) {
    a.bias_type = storage_of(op, "bias", bias);
    expect(op, "bias", bias, bias.dtype(), {x.dim(1)});
  }
  a.x = x.data();
  a.z = z.data();
  a.bias = bias.data();
  a.y = y.data();
  a.rows = x.dim(0);
  a.hidden = x.dim(1);
  a.dropout = dropout_args(dropout, seq * x.dim(1));
  launch(stream, [=, keep = std::array{x, z, bias, y}] {
    if (SHOAL_PICK(residual_forward)(a))
      throw DeviceError(fmt::format("{}: no memory to widen a bias of {} elements", op, a.hidden));
  });
}

void add_(const Stream& stream, const Tensor& y, const Tensor& x) {
  y.require(DType::f32);
  expect("add_", "x", x, DType::f32, y.shape());
  launch(stream, [=] { SHOAL_PICK(add)(y.as<float>(), x.as<float>(), y.numel()); });
}

void scale_(const Stream& stream, const Tensor& x, float factor) {
  x.require(DType::f32);
  launch(stream, [=] { SHOAL_PICK(scale)(x.as<float>(), factor, x.numel()); });
}

}  // namespace shoal::ops
