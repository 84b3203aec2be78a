#include "shoal/ops/dropout.hpp"

#include "kernels/cpu/dropout.hpp"
#include "ops/dispatch.hpp"
#include "ops/dropout_args.hpp"

namespace shoal::ops {
namespace {

// [tokens, hidden], whole samples of seq tokens where a mask is drawn.
void check(const char* op, const Tensor& x, const Dropout& dropout, std::int64_t seq) {
  if (!x.defined() || x.dtype() != DType::f32 || x.shape().rank() != 2)
    throw ShapeError(fmt::format("{}: x: expected f32 [tokens, hidden], got {}", op, x.str()));
  if (dropout.p != 0.0 && (seq < 1 || dropout.first_sample < 0))
    throw ShapeError(fmt::format("{}: seq = {}, first_sample = {}: expected at least 1 and 0", op, seq,
                                 dropout.first_sample));
}

void map(const char* op, const Stream& stream, const Tensor& x, const Dropout& dropout, std::int64_t seq,
         const Tensor& y) {
  check(op, x, dropout, seq);
  expect(op, "result", y, DType::f32, x.shape());
  const auto args = dropout_args(dropout, seq * x.dim(1));
  launch(stream, [=] { SHOAL_PICK(dropout)(x.as<float>(), y.as<float>(), x.numel(), args); });
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
  check("residual_forward", x, dropout, seq);
  expect("residual_forward", "z", z, DType::f32, x.shape());
  expect("residual_forward", "y", y, DType::f32, x.shape());
  if (bias.defined()) expect("residual_forward", "bias", bias, DType::f32, {x.dim(1)});
  const auto args = dropout_args(dropout, seq * x.dim(1));
  launch(stream, [=] {
    SHOAL_PICK(residual_forward)
    (x.as<float>(), z.as<float>(), bias.defined() ? bias.as<float>() : nullptr, y.as<float>(), x.dim(0),
     x.dim(1), args);
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
