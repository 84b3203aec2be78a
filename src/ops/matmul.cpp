#include "shoal/ops/matmul.hpp"

#include "kernels/cpu/bias.hpp"
#include "kernels/cpu/matmul.hpp"
#include "ops/dispatch.hpp"

namespace shoal::ops {
namespace {

std::int64_t pieces_of(const char* op, const char* what, const Tensor& t) {
  if (!t.defined() || (t.shape().rank() != 2 && t.shape().rank() != 3))
    throw ShapeError(fmt::format("{}: {}: expected [rows, columns] or [pieces, rows, columns], got {}", op,
                                 what, t.str()));
  return t.shape().rank() == 3 ? t.dim(0) : 1;
}

// t, of a training type, is [pieces, rows, cols], or [rows, cols]: shared by all pieces, where that is allowed. Its step
// between pieces, which may lie apart.
std::int64_t check(const char* op, const char* what, const Tensor& t, std::int64_t pieces, std::int64_t rows,
                   std::int64_t cols, bool shareable = true) {
  storage_of(op, what, t);
  if (t.shape().rank() == 2 && (shareable || pieces == 1)) {
    expect(op, what, t, t.dtype(), {rows, cols});
    return 0;
  }
  expect_pieces(op, what, t, t.dtype(), {pieces, rows, cols});
  return t.leading_stride();
}

std::int64_t check_bias(const char* op, const char* what, const Tensor& bias, std::int64_t pieces,
                        std::int64_t n) {
  storage_of(op, what, bias);
  if (bias.shape().rank() == 1 && pieces == 1) {
    expect(op, what, bias, bias.dtype(), {n});
    return 0;
  }
  expect_pieces(op, what, bias, bias.dtype(), {pieces, n});
  return bias.leading_stride();
}

// The types of a product of activations `x` (whose type the operands are rounded to) and an operand `w`, which may be
// f32 or of that type; either may be f32 where the other is of 16 bits.
void set_types(const char* op, kernels::MatmulArgs& g, const Tensor& a, const Tensor& b, DType product,
               const Tensor& c) {
  for (const Tensor* t : {&a, &b})
    if (t->dtype() != product && t->dtype() != DType::f32 && product != DType::f32)
      throw ShapeError(fmt::format("{}: a product of {} and {}: neither type holds the other's numbers", op,
                                   a.str(), b.str()));
  if (c.dtype() != product && c.dtype() != DType::f32)
    throw ShapeError(fmt::format("{}: the result of a product of {} and {}: expected {}f32, got {}", op,
                                 a.str(), b.str(),
                                 product == DType::f32 ? "" : fmt::format("{} or ", name(product)), c.str()));
  if (g.accumulate && c.dtype() != DType::f32)
    throw ShapeError(fmt::format("{}: accumulates in f32 only, not in {}", op, c.str()));
  g.product = storage_code(product);
  g.a_type = storage_code(a.dtype());
  g.b_type = storage_code(b.dtype());
  g.c_type = storage_code(c.dtype());
}

// Runs args on tensors that stay alive until it is done.
template <class... Tensors>
void run(const char* op, const Stream& stream, const kernels::MatmulArgs& args, const Tensors&... keep) {
  launch(stream, [=] {
    ((void)keep, ...);
    if (const int error = SHOAL_PICK(matmul)(args))
      throw DeviceError(fmt::format("{}: {} product(s) of {} x {} by {} x {}: {}", op, args.pieces, args.m,
                                    args.k, args.k, args.n,
                                    error < 0 ? std::string("no memory for the tiles")
                                              : fmt::format("oneDNN's sgemm answered {}", error)));
  });
}

void forward(const char* op, const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& bias,
             const Tensor& y, const Tensor& a) {
  kernels::MatmulArgs g{};
  g.pieces = pieces_of(op, "y", y);
  g.m = y.dim(-2);
  g.n = y.dim(-1);
  pieces_of(op, "x", x);
  g.k = x.dim(-1);
  g.c_piece = check(op, "y", y, g.pieces, g.m, g.n, false);
  g.a_piece = check(op, "x", x, g.pieces, g.m, g.k);
  g.b_piece = check(op, "w", w, g.pieces, g.n, g.k);
  g.transpose_b = true;
  set_types(op, g, x, w, x.dtype(), y);
  g.a = x.data();
  g.b = w.data();
  g.c = y.data();
  if (bias.defined()) {
    g.bias_type = storage_of(op, "bias", bias);
    g.bias_piece = check_bias(op, "bias", bias, g.pieces, g.n);
    g.bias = bias.data();
  }
  if (a.defined()) {
    expect(op, "a", a, y.dtype(), y.shape());
    y.require_dense();
    g.gelu_out = a.data();
  }
  run(op, stream, g, x, w, bias, y, a);
}

void backward_input(const char* op, const Stream& stream, const Tensor& dy, const Tensor& w,
                    const Tensor& slope, const Tensor& dx, bool accumulate) {
  kernels::MatmulArgs g{};
  g.pieces = pieces_of(op, "dx", dx);
  g.m = dx.dim(-2);
  g.n = dx.dim(-1);
  pieces_of(op, "dy", dy);
  g.k = dy.dim(-1);
  g.c_piece = check(op, "dx", dx, g.pieces, g.m, g.n, false);
  g.a_piece = check(op, "dy", dy, g.pieces, g.m, g.k);
  g.b_piece = check(op, "w", w, g.pieces, g.k, g.n);
  g.accumulate = accumulate;
  set_types(op, g, dy, w, dy.dtype(), dx);
  g.a = dy.data();
  g.b = w.data();
  g.c = dx.data();
  if (slope.defined()) {
    expect(op, "slope", slope, dx.dtype(), dx.shape());
    dx.require_dense();
    g.factor = slope.data();
  }
  run(op, stream, g, dy, w, slope, dx);
}

}  // namespace

void linear_forward(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& bias,
                    const Tensor& y) {
  forward("linear_forward", stream, x, w, bias, y, Tensor());
}

void linear_gelu_forward(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& bias,
                         const Tensor& slope, const Tensor& a) {
  pieces_of("linear_gelu_forward", "a", a);
  forward("linear_gelu_forward", stream, x, w, bias, slope, a);
}

void linear_backward_input(const Stream& stream, const Tensor& dy, const Tensor& w, const Tensor& dx,
                           bool accumulate) {
  backward_input("linear_backward_input", stream, dy, w, Tensor(), dx, accumulate);
}

void linear_gelu_backward_input(const Stream& stream, const Tensor& dy, const Tensor& w, const Tensor& slope,
                                const Tensor& dx) {
  pieces_of("linear_gelu_backward_input", "slope", slope);
  backward_input("linear_gelu_backward_input", stream, dy, w, slope, dx, false);
}

void linear_backward_weight(const Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dw,
                            bool accumulate) {
  const char* op = "linear_backward_weight";
  kernels::MatmulArgs g{};
  g.pieces = pieces_of(op, "dw", dw);
  g.m = dw.dim(-2);
  g.n = dw.dim(-1);
  pieces_of(op, "x", x);
  g.k = x.dim(-2);
  g.c_piece = check(op, "dw", dw, g.pieces, g.m, g.n, false);
  g.a_piece = check(op, "dy", dy, g.pieces, g.k, g.m);
  g.b_piece = check(op, "x", x, g.pieces, g.k, g.n);
  if (g.pieces > 1 && g.a_piece == 0 && g.b_piece == 0 && x.shape().rank() == 2 && dy.shape().rank() == 2)
    throw ShapeError(fmt::format("{}: x {} and dy {} are both shared by the {} pieces of dw {}", op, x.str(),
                                 dy.str(), g.pieces, dw.str()));
  g.transpose_a = true;
  g.accumulate = accumulate;
  if (x.dtype() != dy.dtype())
    throw ShapeError(fmt::format("{}: x {} and dy {}: expected one type", op, x.str(), dy.str()));
  dw.require(DType::f32);
  set_types(op, g, dy, x, x.dtype(), dw);
  g.a = dy.data();
  g.b = x.data();
  g.c = dw.data();
  run(op, stream, g, x, dy, dw);
}

void matmul(const Stream& stream, const Tensor& a, const Tensor& b, const Tensor& c, MatmulOptions options) {
  kernels::MatmulArgs g{};
  g.pieces = pieces_of("matmul", "c", c);
  g.m = c.dim(-2);
  g.n = c.dim(-1);
  pieces_of("matmul", "a", a);
  g.k = options.transpose_a ? a.dim(-2) : a.dim(-1);
  g.transpose_a = options.transpose_a;
  g.transpose_b = options.transpose_b;
  g.accumulate = options.accumulate;
  g.c_piece = check("matmul", "c", c, g.pieces, g.m, g.n, false);
  g.a_piece = options.transpose_a ? check("matmul", "a", a, g.pieces, g.k, g.m)
                                  : check("matmul", "a", a, g.pieces, g.m, g.k);
  g.b_piece = options.transpose_b ? check("matmul", "b", b, g.pieces, g.n, g.k)
                                  : check("matmul", "b", b, g.pieces, g.k, g.n);
  set_types("matmul", g, a, b, a.dtype() == DType::f32 ? b.dtype() : a.dtype(), c);
  g.a = a.data();
  g.b = b.data();
  g.c = c.data();
  run("matmul", stream, g, a, b, c);
}

void bias_backward(const Stream& stream, const Tensor& dy, const Tensor& db, bool accumulate) {
  const std::int64_t pieces = pieces_of("bias_backward", "dy", dy), m = dy.dim(-2), n = dy.dim(-1);
  const kernels::Storage type = storage_of("bias_backward", "dy", dy);
  dy.require_dense();
  const std::int64_t db_piece = check_bias("bias_backward", "db", db, pieces, n);
  db.require(DType::f32);
  launch(stream, [=] {
    SHOAL_PICK(bias_backward)(type, dy.data(), db.base<float>(), db_piece, pieces, m, n, accumulate);
  });
}

void tree_sum(const Stream& stream, const Tensor& x, const Tensor& y) {
  if (!x.defined() || x.dtype() != DType::f32 || x.shape().rank() < 1 || x.dim(0) < 1)
    throw ShapeError(fmt::format("tree_sum: x: expected f32 [at least one piece, ...], got {}", x.str()));
  const kernels::Storage type = storage_of("tree_sum", "y", y);
  expect("tree_sum", "y", y, y.dtype(), x.shape().tail());
  launch(stream, [=] { SHOAL_PICK(tree_sum)(x.as<float>(), type, y.data(), x.dim(0), y.numel()); });
}

}  // namespace shoal::ops
