#include "shoal/ops/activation.hpp"

#include "kernels/cpu/activation.hpp"
#include "ops/dispatch.hpp"

namespace shoal::ops {

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

}  // namespace shoal::ops
