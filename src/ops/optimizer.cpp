#include "shoal/ops/optimizer.hpp"

#include "kernels/cpu/optimizer.hpp"
#include "ops/dispatch.hpp"

namespace shoal::ops {

void adamw_step(const Stream& stream, const Tensor& p, const Tensor& grad, const Tensor& m, const Tensor& v,
                const AdamWStep& step) {
  p.require(DType::f32);
  expect("adamw_step", "grad", grad, DType::f32, p.shape());
  expect("adamw_step", "m", m, DType::f32, p.shape());
  expect("adamw_step", "v", v, DType::f32, p.shape());
  const kernels::AdamWArgs args{
      step.beta1,     step.one_minus_beta1, step.beta2, step.one_minus_beta2, step.decay,
      step.step_size, step.inv_sqrt_bias2,  step.eps,   step.grad_scale};
  launch(stream, [=] {
    SHOAL_PICK(adamw_step)(p.as<float>(), grad.as<float>(), m.as<float>(), v.as<float>(), p.numel(), args);
  });
}

void sgd_step(const Stream& stream, const Tensor& p, const Tensor& grad, const Tensor& buf,
              const SgdStep& step) {
  p.require(DType::f32);
  expect("sgd_step", "grad", grad, DType::f32, p.shape());
  if (step.momentum != 0.0f || buf.defined()) expect("sgd_step", "buf", buf, DType::f32, p.shape());
  const kernels::SgdArgs args{step.lr,         step.momentum, step.weight_decay,
                              step.grad_scale, step.nesterov, step.first};
  launch(stream, [=] {
    SHOAL_PICK(sgd_step)
    (p.as<float>(), grad.as<float>(), step.momentum != 0.0f ? buf.as<float>() : nullptr, p.numel(), args);
  });
}

void chunk_sum_squares(const Stream& stream, const Tensor& x, const Tensor& out) {
  x.require(DType::f32);
  if (x.numel() % 256 != 0)
    throw ShapeError(fmt::format("chunk_sum_squares: {}: expected a multiple of 256 elements", x.str()));
  expect("chunk_sum_squares", "out", out, DType::f64, {x.numel() / 256});
  launch(stream, [=] { SHOAL_PICK(chunk_sum_squares)(x.as<float>(), out.as<double>(), out.numel()); });
}

}  // namespace shoal::ops
