#include "shoal/ops/attention.hpp"

#include <array>

#include "kernels/cpu/attention.hpp"
#include "ops/dispatch.hpp"
#include "ops/dropout_args.hpp"

namespace shoal::ops {
namespace {

kernels::HeadsArgs view(const char* op, const char* what, const HeadsView& v, const AttentionShape& s,
                        std::int64_t heads, DType type) {
  const Tensor& t = v.t;
  const int rank = t.defined() ? t.shape().rank() : 0;
  const std::int64_t pieces = rank == 3 ? t.dim(0) : 1, tokens = s.samples * s.seq;
  if (!t.defined() || t.dtype() != type || (rank != 2 && rank != 3) || t.dim(-2) != tokens || v.column < 0 ||
      v.heads_per_piece < 1 || pieces * v.heads_per_piece != heads ||
      v.column + v.heads_per_piece * s.head_dim > t.dim(-1))
    throw ShapeError(fmt::format(
        "{}: {}: expected {} [pieces, {} samples x {} tokens, width] with {} heads of {} in "
        "all, {} a piece, from "
        "column {}; got {}",
        op, what, name(type), s.samples, s.seq, heads, s.head_dim, v.heads_per_piece, v.column, t.str()));
  t.require_dense();
  return {t.data(), tokens * t.dim(-1), t.dim(-1), v.column, v.heads_per_piece};
}

kernels::AttentionArgs arguments(const char* op, const AttentionShape& s, const HeadsView& q,
                                 const HeadsView& k, const HeadsView& v, const HeadsView& o,
                                 const Tensor& lse, const Dropout& dropout) {
  const std::int64_t all = s.all_heads ? s.all_heads : s.heads;
  if (s.samples < 0 || s.seq < 0 || s.heads < 1 || s.kv_heads < 1 || s.head_dim < 1 ||
      s.heads % s.kv_heads != 0 || s.first_head < 0 || s.first_head + s.heads > all)
    throw ShapeError(
        fmt::format("{}: samples {}, seq {}, heads {} (from {} of {}), kv_heads {}, head_dim {}: sizes must "
                    "be positive, and "
                    "kv_heads divide heads",
                    op, s.samples, s.seq, s.heads, s.first_head, all, s.kv_heads, s.head_dim));
  expect(op, "lse", lse, DType::f32, {s.samples, s.heads, s.seq});
  kernels::AttentionArgs g{};
  g.type = storage_of(op, "q", q.t);
  const DType type = q.t.dtype();
  g.samples = s.samples;
  g.seq = s.seq;
  g.heads = s.heads;
  g.kv_heads = s.kv_heads;
  g.head_dim = s.head_dim;
  g.scale = s.scale;
  g.q = view(op, "q", q, s, s.heads, type);
  g.k = view(op, "k", k, s, s.kv_heads, type);
  g.v = view(op, "v", v, s, s.kv_heads, type);
  g.o = view(op, "o", o, s, s.heads, type);
  g.lse = lse.as<float>();
  g.dropout = dropout_args(dropout, 0);
  g.first_sample = dropout.first_sample;
  g.first_head = s.first_head;
  g.all_heads = all;
  return g;
}

void require_memory(const char* op, const AttentionShape& s, int error) {
  if (error)
    throw DeviceError(
        fmt::format("{}: no memory for the tiles of {} tokens x head_dim {}", op, s.seq, s.head_dim));
}

}  // namespace

void attention_forward(const Stream& stream, const AttentionShape& shape, const HeadsView& q,
                       const HeadsView& k, const HeadsView& v, const HeadsView& o, const Tensor& lse,
                       const Dropout& dropout) {
  const auto g = arguments("attention_forward", shape, q, k, v, o, lse, dropout);
  launch(stream, [g, shape, keep = std::array{q.t, k.t, v.t, o.t, lse}] {
    require_memory("attention_forward", shape, SHOAL_PICK(attention_forward)(g));
  });
}

void attention_backward(const Stream& stream, const AttentionShape& shape, const HeadsView& q,
                        const HeadsView& k, const HeadsView& v, const HeadsView& o, const Tensor& lse,
                        const HeadsView& d_o, const HeadsView& dq, const HeadsView& dk, const HeadsView& dv,
                        const Dropout& dropout) {
  const char* op = "attention_backward";
  auto g = arguments(op, shape, q, k, v, o, lse, dropout);
  g.d_o = view(op, "d_o", d_o, shape, shape.heads, q.t.dtype());
  g.dq = view(op, "dq", dq, shape, shape.heads, q.t.dtype());
  g.dk = view(op, "dk", dk, shape, shape.kv_heads, q.t.dtype());
  g.dv = view(op, "dv", dv, shape, shape.kv_heads, q.t.dtype());
  launch(stream, [g, shape, keep = std::array{q.t, k.t, v.t, o.t, lse, d_o.t, dq.t, dk.t, dv.t}] {
    require_memory("attention_backward", shape, SHOAL_PICK(attention_backward)(g));
  });
}

void attention_decode(const Stream& stream, const AttentionShape& shape, const Tensor& q,
                      const Tensor& k_cache, const Tensor& v_cache, std::int64_t length, const Tensor& o) {
  const char* op = "attention_decode";
  if (shape.heads < 1 || shape.kv_heads < 1 || shape.heads % shape.kv_heads != 0 || shape.head_dim < 1 ||
      length < 1)
    throw ShapeError(
        fmt::format("{}: heads {}, kv_heads {}, head_dim {}, length {}: at least 1 each, and kv_heads "
                    "divide heads",
                    op, shape.heads, shape.kv_heads, shape.head_dim, length));
  const std::int64_t width = shape.heads * shape.head_dim, kv_width = shape.kv_heads * shape.head_dim;
  const auto holds = [&](const char* what, const Tensor& t, std::int64_t need, bool exactly) {
    if (!t.defined() || t.dtype() != DType::f32 || (exactly ? t.numel() != need : t.numel() < need))
      throw ShapeError(fmt::format(
          "{}: {}: expected {}{} f32 elements ({} heads, {} of keys, of {}; length {}), got {}", op, what,
          exactly ? "" : "at least ", need, shape.heads, shape.kv_heads, shape.head_dim, length, t.str()));
  };
  holds("q", q, width, true);
  holds("o", o, width, true);
  holds("k_cache", k_cache, length * kv_width, false);
  holds("v_cache", v_cache, length * kv_width, false);
  launch(stream, [=] {
    SHOAL_PICK(attention_decode)
    (q.as<float>(), k_cache.as<float>(), v_cache.as<float>(), o.as<float>(), length, shape.heads,
     shape.kv_heads, shape.head_dim, shape.scale);
  });
}

}  // namespace shoal::ops
