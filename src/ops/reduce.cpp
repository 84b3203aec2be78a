#include "shoal/ops/reduce.hpp"

#include <fmt/format.h>

#include "kernels/cpu/copy.hpp"
#include "kernels/cpu/reduce.hpp"
#include "shoal/core/error.hpp"

namespace shoal::ops {

void combine(Combine op, DType dtype, const void* const* sources, int n, void* dst, std::int64_t count,
             int divisor, const double* scales) {
  combine_to(op, dtype, sources, n, &dst, 1, false, count, divisor, scales);
}

void combine_to(Combine op, DType dtype, const void* const* sources, int n, void* const* dst, int copies,
                bool stream, std::int64_t count, int divisor, const double* scales) {
  if (n < 1 || n > (1 << 19) || count < 0 || divisor < 1 || copies < 1)
    throw ShapeError(fmt::format("combine: {} sources of {} elements to {} arrays, divisor {}", n, count,
                                 copies, divisor));
  if (scales && (op != Combine::sum || dtype == DType::i32 || dtype == DType::i64 || dtype == DType::u8))
    throw ShapeError(
        fmt::format("combine: scales are for sums of f32, f64, f16 and bf16, not of {}", name(dtype)));
  if (count == 0) return;
  const int code = static_cast<int>(op);
  const kernels::CombineTo to{dst, copies, stream};
  switch (dtype) {
    case DType::f32: return SHOAL_PICK(combine_f32)(code, sources, n, to, count, divisor, scales);
    case DType::f64: return SHOAL_PICK(combine_f64)(code, sources, n, to, count, divisor, scales);
    case DType::f16: return SHOAL_PICK(combine_f16)(code, sources, n, to, count, divisor, scales);
    case DType::bf16: return SHOAL_PICK(combine_bf16)(code, sources, n, to, count, divisor, scales);
    case DType::i32: return SHOAL_PICK(combine_i32)(code, sources, n, to, count, divisor, scales);
    case DType::i64: return SHOAL_PICK(combine_i64)(code, sources, n, to, count, divisor, scales);
    case DType::u8: return SHOAL_PICK(combine_u8)(code, sources, n, to, count, divisor, scales);
    case DType::u16:
    case DType::u32: break;
  }
  throw ShapeError(fmt::format("combine: no arithmetic on {} (f32, f64, f16, bf16, i32, i64 and u8 have it)",
                               name(dtype)));
}

void copy_past_caches(const void* from, void* to, std::int64_t bytes) {
  if (bytes < 0) throw ShapeError(fmt::format("copy of {} bytes", bytes));
  if (bytes > 0) SHOAL_PICK(copy_past_caches)(from, to, bytes);
}

}  // namespace shoal::ops
