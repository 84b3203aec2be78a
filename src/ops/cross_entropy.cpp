#include "shoal/ops/cross_entropy.hpp"

#include "kernels/cpu/cross_entropy.hpp"
#include "ops/dispatch.hpp"

namespace shoal::ops {

void cross_entropy(const Stream& stream, const Tensor& logits, const Tensor& targets, std::int64_t vocab,
                   const Tensor& loss, const Tensor& dlogits, float scale) {
  if (!logits.defined() || logits.shape().rank() != 3)
    throw ShapeError(
        fmt::format("cross_entropy: logits: expected [pieces, tokens, columns], got {}", logits.str()));
  const kernels::Storage type = storage_of("cross_entropy", "logits", logits);
  logits.require_dense();
  const std::int64_t pieces = logits.dim(0), rows = logits.dim(1), width = logits.dim(2);
  if (vocab < 1 || vocab > pieces * width)
    throw ShapeError(
        fmt::format("cross_entropy: vocab = {}: expected 1 to {} x {} columns", vocab, pieces, width));
  expect("cross_entropy", "targets", targets, DType::i32, {rows});
  expect("cross_entropy", "loss", loss, DType::f32, {rows});
  if (dlogits.defined()) expect("cross_entropy", "dlogits", dlogits, logits.dtype(), logits.shape());
  launch(stream, [=] {
    const std::int32_t* t = targets.as<std::int32_t>();
    for (std::int64_t i = 0; i < rows; ++i)
      if (t[i] != ignored_token && (t[i] < 0 || t[i] >= vocab))
        throw ShapeError(fmt::format("cross_entropy: target {} has id {}, outside the vocabulary [0, {})", i,
                                     t[i], vocab));
    if (SHOAL_PICK(cross_entropy)({type, logits.data(), t, loss.as<float>(), dlogits.data(), pieces, rows,
                                   width, vocab, ignored_token, scale}))
      throw DeviceError(
          fmt::format("cross_entropy: no memory for the exponentials of {} x {} columns", pieces, width));
  });
}

void loss_sum(const Stream& stream, const Tensor& loss, const Tensor& sum) {
  loss.require(DType::f32);
  expect("loss_sum", "sum", sum, DType::f64, {1});
  launch(stream, [=] { *sum.as<double>() = SHOAL_PICK(sum_f64)(loss.as<float>(), loss.numel()); });
}

}  // namespace shoal::ops
