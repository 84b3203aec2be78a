// GELU by its tanh formula (Hendrycks, Gimpel 2016, as GPT-2 uses it) and SwiGLU (Shazeer 2020).
#pragma once
#include "shoal/core/tensor.hpp"

namespace shoal::ops {

// Tensors of a call are of one type: f32, bf16 or f16. Computed in FP32; results are rounded once.

// Elementwise, any shape; y may be x, dx may be dy.
void gelu_forward(const Stream& stream, const Tensor& x, const Tensor& y);
void gelu_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& dx);

// y = silu(gate) * up.   gate_up [..., 2 F] (gate first, then up); y [..., F].
void swiglu_forward(const Stream& stream, const Tensor& gate_up, const Tensor& y);
// d_gate_up may be gate_up.
void swiglu_backward(const Stream& stream, const Tensor& dy, const Tensor& gate_up, const Tensor& d_gate_up);

}  // namespace shoal::ops
