#include "shoal/ops/adafactor.hpp"

#include "kernels/cpu/adafactor.hpp"
#include "ops/dispatch.hpp"

namespace shoal::ops {

void adafactor_matrix(const Stream& stream, const Tensor& g, const Tensor& rows, const Tensor& columns,
                      const AdafactorStep& s) {
  if (!g.defined() || g.dtype() != DType::f32 || g.shape().rank() != 2)
    throw ShapeError(fmt::format("adafactor_matrix: g: expected f32 [rows, columns], got {}", g.str()));
  const std::int64_t R = g.dim(0), C = g.dim(1);
  expect("adafactor_matrix", "rows", rows, DType::f32, {R});
  expect("adafactor_matrix", "columns", columns, DType::f32, {C});
  const Tensor factors = Tensor::empty({R + C}, DType::f32, stream),
               sums = Tensor::empty({R + C}, DType::f64, stream);
  launch(stream, [=] {
    SHOAL_PICK(adafactor_matrix)
    (g.as<float>(), R, C, rows.as<float>(), columns.as<float>(), sums.as<double>(), factors.as<float>(),
     {s.grad_scale, s.decay, s.rest, s.eps});
  });
}

void adafactor_vector(const Stream& stream, const Tensor& g, const Tensor& v, const AdafactorStep& s) {
  g.require(DType::f32);
  expect("adafactor_vector", "v", v, DType::f32, g.shape());
  launch(stream, [=] {
    SHOAL_PICK(adafactor_vector)
    (g.as<float>(), g.numel(), v.as<float>(), {s.grad_scale, s.decay, s.rest, s.eps});
  });
}

}  // namespace shoal::ops
