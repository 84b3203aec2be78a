#pragma once
#include "kernels/common/isa.hpp"
#include "kernels/common/storage_code.hpp"

// All arrays of a call are of `type`.
SHOAL_KERNEL(void gelu_forward(Storage type, const void* x, void* y, std::int64_t n))
SHOAL_KERNEL(void gelu_backward(Storage type, const void* dy, const void* x, void* dx, std::int64_t n))
SHOAL_KERNEL(void swiglu_forward(Storage type, const void* gate_up, void* y, std::int64_t rows,
                                 std::int64_t columns))
SHOAL_KERNEL(void swiglu_backward(Storage type, const void* dy, const void* gate_up, void* d_gate_up,
                                  std::int64_t rows, std::int64_t columns))
