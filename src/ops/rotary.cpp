#include "shoal/ops/rotary.hpp"

#include <cmath>

#include "kernels/cpu/rotary.hpp"
#include "ops/dispatch.hpp"

namespace shoal::ops {

void rotary_table(const Stream& stream, std::int64_t seq, std::int64_t head_dim, double theta,
                  const Tensor& cos, const Tensor& sin, std::int64_t first) {
  if (seq < 0 || head_dim < 0 || head_dim % 2 != 0 || first < 0 || !(theta > 0.0))
    throw ShapeError(
        fmt::format("rotary_table: seq = {}, head_dim = {} (even), theta = {} (positive), first = {}", seq,
                    head_dim, theta, first));
  const std::int64_t half = head_dim / 2;
  expect("rotary_table", "cos", cos, DType::f32, {seq, half});
  expect("rotary_table", "sin", sin, DType::f32, {seq, half});
  launch(stream, [=] {
    float *c = cos.as<float>(), *s = sin.as<float>();
    for (std::int64_t i = 0; i < half; ++i) {
      const double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
      for (std::int64_t t = 0; t < seq; ++t) {
        const double angle = static_cast<double>(first + t) * frequency;
        c[t * half + i] = static_cast<float>(std::cos(angle));
        s[t * half + i] = static_cast<float>(std::sin(angle));
      }
    }
  });
}

void rotary(const Stream& stream, const HeadsView& x, std::int64_t heads, std::int64_t head_dim,
            std::int64_t samples, std::int64_t seq, const Tensor& cos, const Tensor& sin, bool backward) {
  const Tensor& t = x.t;
  const std::int64_t tokens = samples * seq, half = head_dim / 2;
  if (!t.defined() || t.shape().rank() != 3 || t.dim(1) != tokens || samples < 0 || seq < 0)
    throw ShapeError(
        fmt::format("rotary: x: expected [pieces, {} x {} tokens, width], got {}", samples, seq, t.str()));
  const kernels::Storage type = storage_of("rotary", "x", t);
  t.require_dense();
  if (heads < 0 || head_dim < 0 || head_dim % 2 != 0 || x.heads_per_piece < 1 || x.column < 0 ||
      heads > t.dim(0) * x.heads_per_piece || x.column + x.heads_per_piece * head_dim > t.dim(2))
    throw ShapeError(fmt::format("rotary: {} heads of {} (even), {} a piece from column {}, do not fit {}",
                                 heads, head_dim, x.heads_per_piece, x.column, t.str()));
  for (const Tensor* table : {&cos, &sin})
    if (!table->defined() || table->dtype() != DType::f32 || table->shape().rank() != 2 ||
        table->dim(0) < seq || table->dim(1) != half)
      throw ShapeError(
          fmt::format("rotary: table: expected f32 [at least {}, {}], got {}", seq, half, table->str()));
  if (tokens == 0) return;
  launch(stream, [=, width = t.dim(2)] {
    SHOAL_PICK(rotary)
    ({type, x.t.data(), tokens, width, x.column, heads, x.heads_per_piece, head_dim, seq, cos.as<float>(),
      sin.as<float>(), backward});
  });
}

}  // namespace shoal::ops
