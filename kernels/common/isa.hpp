// How one kernel source becomes several: it is compiled once for each instruction set, in namespace
// shoal::kernels::SHOAL_ISA, and src/ops picks one at run time with SHOAL_PICK.
#pragma once
#include <cstdint>

#include "shoal/core/cpu_info.hpp"

// Declares a kernel in the namespace of each instruction set:
//   SHOAL_KERNEL(void gelu_forward(const float* x, float* y, std::int64_t n))
#if defined(__x86_64__)
#define SHOAL_KERNEL(...)             \
  namespace shoal::kernels::generic { \
  __VA_ARGS__;                        \
  }                                   \
  namespace shoal::kernels::avx2 {    \
  __VA_ARGS__;                        \
  }                                   \
  namespace shoal::kernels::avx512 {  \
  __VA_ARGS__;                        \
  }
#define SHOAL_PICK(f)                                                    \
  (::shoal::isa() == ::shoal::Isa::avx512 ? &::shoal::kernels::avx512::f \
   : ::shoal::isa() == ::shoal::Isa::avx2 ? &::shoal::kernels::avx2::f   \
                                          : &::shoal::kernels::generic::f)
#else
#define SHOAL_KERNEL(...)             \
  namespace shoal::kernels::generic { \
  __VA_ARGS__;                        \
  }
#define SHOAL_PICK(f) (&::shoal::kernels::generic::f)
#endif
