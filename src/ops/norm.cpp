#include "shoal/ops/norm.hpp"

#include "kernels/cpu/norm.hpp"
#include "ops/dispatch.hpp"

namespace shoal::ops {
namespace {

using kernels::NormBackward;
using kernels::NormForward;

void expect_matrix(const char* op, const char* what, const Tensor& t) {
  if (!t.defined() || t.shape().rank() != 2)
    throw ShapeError(fmt::format("{}: {}: expected [tokens, hidden], got {}", op, what, t.str()));
}

float* data(const Tensor& t) { return t.defined() ? t.as<float>() : nullptr; }

// An allocation in the kernel, the only thing that can go wrong there.
void require_memory(const char* op, std::int64_t hidden, int error) {
  if (error) throw DeviceError(fmt::format("{}: no memory to widen parameters of {} elements", op, hidden));
}

// bias and mean are undefined for RMS norm.
void forward(const char* op, decltype(&kernels::generic::layer_norm_forward) kernel, const Stream& stream,
             const Tensor& x, const Tensor& weight, const Tensor& bias, float eps, const Tensor& y,
             const Tensor& mean, const Tensor& rstd, bool centred) {
  expect_matrix(op, "x", x);
  const kernels::Storage type = storage_of(op, "x", x), parameters = storage_of(op, "weight", weight);
  x.require_dense();
  expect(op, "weight", weight, weight.dtype(), {x.dim(1)});
  expect(op, "y", y, x.dtype(), x.shape());
  expect(op, "rstd", rstd, DType::f32, {x.dim(0)});
  if (centred) {
    expect(op, "bias", bias, weight.dtype(), {x.dim(1)});
    expect(op, "mean", mean, DType::f32, {x.dim(0)});
  }
  launch(stream, [=] {
    require_memory(op, x.dim(1),
                   kernel(NormForward{type, parameters, x.data(), weight.data(), bias.data(), eps, y.data(),
                                      data(mean), data(rstd), x.dim(0), x.dim(1)}));
  });
}

// mean and dbias are undefined for RMS norm.
void backward(const char* op, decltype(&kernels::generic::layer_norm_backward) kernel, const Stream& stream,
              const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd,
              const Tensor& dres, const Tensor& dx, const Tensor& dweight, const Tensor& dbias,
              bool accumulate, bool centred) {
  expect_matrix(op, "x", x);
  expect_matrix(op, "dweight", dweight);
  const kernels::Storage type = storage_of(op, "x", x), parameters = storage_of(op, "weight", weight);
  x.require_dense();
  const std::int64_t rows = x.dim(0), hidden = x.dim(1), shards = dweight.dim(0);
  expect(op, "dy", dy, x.dtype(), x.shape());
  expect(op, "weight", weight, weight.dtype(), {hidden});
  expect(op, "rstd", rstd, DType::f32, {rows});
  expect(op, "dx", dx, x.dtype(), x.shape());
  expect(op, "dweight", dweight, DType::f32, {shards, hidden});
  if (dres.defined()) expect(op, "dres", dres, x.dtype(), x.shape());
  if (centred) {
    expect(op, "mean", mean, DType::f32, {rows});
    expect(op, "dbias", dbias, DType::f32, {shards, hidden});
  }
  if (shards < 1 || rows % shards != 0)
    throw ShapeError(fmt::format("{}: {} rows do not divide into {} token shards", op, rows, shards));
  const Tensor partial = Tensor::empty(
      {shards * kernels::norm_blocks(rows / shards), centred ? 2 : 1, hidden}, DType::f32, stream);
  launch(stream, [=] {
    require_memory(op, hidden,
                   kernel(NormBackward{type, parameters, dy.data(), x.data(), weight.data(), data(mean),
                                       data(rstd), dres.data(), dx.data(), data(dweight), data(dbias),
                                       data(partial), rows, hidden, shards, accumulate}));
  });
}

}  // namespace

void layer_norm_forward(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                        float eps, const Tensor& y, const Tensor& mean, const Tensor& rstd) {
  forward("layer_norm_forward", SHOAL_PICK(layer_norm_forward), stream, x, weight, bias, eps, y, mean, rstd,
          true);
}

void layer_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& weight,
                         const Tensor& mean, const Tensor& rstd, const Tensor& dres, const Tensor& dx,
                         const Tensor& dweight, const Tensor& dbias, bool accumulate) {
  backward("layer_norm_backward", SHOAL_PICK(layer_norm_backward), stream, dy, x, weight, mean, rstd, dres,
           dx, dweight, dbias, accumulate, true);
}

void rms_norm_forward(const Stream& stream, const Tensor& x, const Tensor& weight, float eps, const Tensor& y,
                      const Tensor& rstd) {
  forward("rms_norm_forward", SHOAL_PICK(rms_norm_forward), stream, x, weight, {}, eps, y, {}, rstd, false);
}

void rms_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& weight,
                       const Tensor& rstd, const Tensor& dres, const Tensor& dx, const Tensor& dweight,
                       bool accumulate) {
  backward("rms_norm_backward", SHOAL_PICK(rms_norm_backward), stream, dy, x, weight, {}, rstd, dres, dx,
           dweight, {}, accumulate, false);
}

std::int64_t norm_backward_scratch(std::int64_t rows, std::int64_t hidden, bool bias) {
  return kernels::norm_blocks(rows) * (bias ? 2 : 1) * hidden;
}

}  // namespace shoal::ops
