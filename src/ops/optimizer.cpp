#include "shoal/ops/optimizer.hpp"

#include <array>

#include "kernels/cpu/optimizer.hpp"
#include "ops/dispatch.hpp"

namespace shoal::ops {

namespace {

kernels::AdamWArgs arguments(const AdamWStep& s) {
  return {s.beta1,     s.one_minus_beta1, s.beta2, s.one_minus_beta2, s.decay,
          s.step_size, s.inv_sqrt_bias2,  s.eps,   s.grad_scale,      s.weight_decay};
}

// What an update writes; throws ShapeError where the two do not fit.
kernels::Target target(const char* op, const Tensor& p, const Tensor& narrow) {
  p.require(DType::f32);
  if (!narrow.defined()) return {p.as<float>(), nullptr, kernels::Storage::f32};
  const kernels::Storage type = storage_of(op, "narrow", narrow);
  if (type == kernels::Storage::f32)
    throw ShapeError(fmt::format("{}: narrow: expected bf16 or f16, got {}", op, narrow.str()));
  expect(op, "narrow", narrow, narrow.dtype(), p.shape());
  return {p.as<float>(), narrow.data(), type};
}

}  // namespace

void adamw_step(const Stream& stream, const Tensor& p, const Tensor& grad, const Tensor& m, const Tensor& v,
                const AdamWStep& step, const Tensor& narrow) {
  const kernels::Target to = target("adamw_step", p, narrow);
  expect("adamw_step", "grad", grad, DType::f32, p.shape());
  expect("adamw_step", "m", m, DType::f32, p.shape());
  expect("adamw_step", "v", v, DType::f32, p.shape());
  launch(stream, [=, keep = std::array{p, narrow}, args = arguments(step)] {
    SHOAL_PICK(adamw_step)(to, grad.as<float>(), m.as<float>(), v.as<float>(), grad.numel(), args);
  });
}

void adam_direction(const Stream& stream, const Tensor& p, const Tensor& grad, const Tensor& m,
                    const Tensor& v, const AdamWStep& step) {
  const kernels::Storage type = storage_of("adam_direction", "p", p);
  p.require_dense();
  expect("adam_direction", "grad", grad, DType::f32, p.shape());
  expect("adam_direction", "m", m, DType::f32, p.shape());
  expect("adam_direction", "v", v, DType::f32, p.shape());
  launch(stream, [=, args = arguments(step)] {
    SHOAL_PICK(adam_direction)
    (p.data(), type, grad.as<float>(), m.as<float>(), v.as<float>(), grad.numel(), args);
  });
}

void sgd_step(const Stream& stream, const Tensor& p, const Tensor& grad, const Tensor& buf,
              const SgdStep& step, const Tensor& narrow) {
  const kernels::Target to = target("sgd_step", p, narrow);
  expect("sgd_step", "grad", grad, DType::f32, p.shape());
  if (step.momentum != 0.0f || buf.defined()) expect("sgd_step", "buf", buf, DType::f32, p.shape());
  const kernels::SgdArgs args{step.lr,         step.momentum, step.weight_decay,
                              step.grad_scale, step.nesterov, step.first};
  launch(stream, [=, keep = std::array{p, narrow}] {
    SHOAL_PICK(sgd_step)
    (to, grad.as<float>(), step.momentum != 0.0f ? buf.as<float>() : nullptr, grad.numel(), args);
  });
}

void lion_step(const Stream& stream, const Tensor& p, const Tensor& grad, const Tensor& m,
               const LionStep& step, const Tensor& narrow) {
  const kernels::Target to = target("lion_step", p, narrow);
  expect("lion_step", "grad", grad, DType::f32, p.shape());
  expect("lion_step", "m", m, DType::f32, p.shape());
  const kernels::LionArgs args{step.beta1, step.one_minus_beta1, step.beta2, step.one_minus_beta2, step.decay,
                               step.lr,    step.grad_scale};
  launch(stream, [=, keep = std::array{p, narrow}] {
    SHOAL_PICK(lion_step)(to, grad.as<float>(), m.as<float>(), grad.numel(), args);
  });
}

void scaled_step(const Stream& stream, const Tensor& p, const Tensor& u, float decay, float lr,
                 const Tensor& narrow) {
  const kernels::Target to = target("scaled_step", p, narrow);
  expect("scaled_step", "u", u, DType::f32, p.shape());
  launch(stream, [=, keep = std::array{p, narrow}] {
    SHOAL_PICK(scaled_step)(to, u.as<float>(), u.numel(), decay, lr);
  });
}

void momentum_direction(const Stream& stream, const Tensor& grad, const Tensor& buf, float momentum,
                        float one_minus_momentum, float grad_scale, bool nesterov) {
  grad.require(DType::f32);
  expect("momentum_direction", "buf", buf, DType::f32, grad.shape());
  launch(stream, [=] {
    SHOAL_PICK(momentum_direction)
    (grad.as<float>(), buf.as<float>(), grad.numel(), momentum, one_minus_momentum, grad_scale, nesterov);
  });
}

void average_step(const Stream& stream, const Tensor& average, const Tensor& p, float decay, float rest) {
  const kernels::Storage type = storage_of("average_step", "p", p);
  p.require_dense();
  expect("average_step", "average", average, DType::f32, p.shape());
  launch(stream, [=] {
    SHOAL_PICK(average_step)(average.as<float>(), p.data(), type, p.numel(), decay, rest);
  });
}

void scale_clamp_(const Stream& stream, const Tensor& x, float factor, float limit) {
  x.require(DType::f32);
  launch(stream, [=] { SHOAL_PICK(scale_clamp)(x.as<float>(), x.numel(), factor, limit); });
}

void chunk_sum_squares(const Stream& stream, const Tensor& x, const Tensor& out) {
  x.require(DType::f32);
  if (x.numel() % 256 != 0)
    throw ShapeError(fmt::format("chunk_sum_squares: {}: expected a multiple of 256 elements", x.str()));
  expect("chunk_sum_squares", "out", out, DType::f64, {x.numel() / 256});
  launch(stream, [=] { SHOAL_PICK(chunk_sum_squares)(x.as<float>(), out.as<double>(), out.numel()); });
}

}  // namespace shoal::ops
