// Matrix products, linear layers and their gradients, over piece-major tensors.
//
// P is the number of pieces a tensor is split in (docs/numerics.md, R2). An operand of rank 2 is shared by all
// pieces; a result of rank 2 needs P = 1. Pieces of weights, biases and their gradients may lie apart
// (Tensor::leading_stride), which changes no bit. A product is made of calls whose shapes are functions of
// (M, N, K) and of the types alone, each on one thread, so bits depend neither on the thread count nor on who owns a
// piece.
//
// T is the type of the activations (x, or dy where there is no x; both alike): f32, bf16 or f16. A weight of a wider type
// is rounded to T (to nearest even) before it is multiplied, one of a narrower type is exact; bf16 and f16 do not meet
// in one product. Sums, bias, GELU and slope are FP32; what is stored as bf16 or f16 is rounded once, after all of them.
// Biases are of any of the three types. Other types are a ShapeError, as are other shapes.
#pragma once
#include "shoal/core/tensor.hpp"

namespace shoal::ops {

// Y[p] = X[p] W[p]^T (+ bias[p]).   x [P, M, K] or [M, K]; w [P, N, K]; bias [P, N] or undefined; y [P, M, N], of T
// or f32.
void linear_forward(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& bias,
                    const Tensor& y);
// With u = X W^T (+ bias) as above: a = gelu_tanh(u), and slope = gelu_tanh'(u), which is all that the backward pass
// needs of u (the two share their sigmoid; u is FP32). Both are written, [P, M, N], of one type: T or f32.
void linear_gelu_forward(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& bias,
                         const Tensor& slope, const Tensor& a);
// dX[p] = dY[p] W[p].   dy [P, M, N] or [M, N]; w [P, N, K]; dx [P, M, K], of T or f32.  accumulate: dx += ..., f32
// only.
void linear_backward_input(const Stream& stream, const Tensor& dy, const Tensor& w, const Tensor& dx,
                           bool accumulate = false);
// dX[p] = (dY[p] W[p]) * slope[p], slope [P, M, K] being what linear_gelu_forward wrote, of dx's type.
void linear_gelu_backward_input(const Stream& stream, const Tensor& dy, const Tensor& w, const Tensor& slope,
                                const Tensor& dx);
// dW[p] (+)= dY[p]^T X[p].   x and dy as above, at least one of rank 3 unless P = 1; dw [P, N, K], f32.
void linear_backward_weight(const Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dw,
                            bool accumulate);
// db[p] (+)= the sum of dy[p] over its M rows, in blocks of 64 combined by the tree.  dy [P, M, N], f32, bf16 or f16;
// db [P, N], f32.
void bias_backward(const Stream& stream, const Tensor& dy, const Tensor& db, bool accumulate);

// y = the tree's sum of x[0], ..., x[P-1].   x [P, ...], f32; y [...] of any training type, rounded once
// at the root (R7). y may be x[0] where it is f32.
void tree_sum(const Stream& stream, const Tensor& x, const Tensor& y);

// C[p] = A[p] B[p]  (+ C[p]), [M, K] x [K, N], either operand stored transposed. What the above are made of.
// T is the 16-bit type where one of a and b has it (then the other, if f32, is rounded to it first), else f32; c is of T or
// f32, and accumulates in f32 only.
struct MatmulOptions {
  bool transpose_a = false, transpose_b = false, accumulate = false;
};
void matmul(const Stream& stream, const Tensor& a, const Tensor& b, const Tensor& c,
            MatmulOptions options = {});

}  // namespace shoal::ops
