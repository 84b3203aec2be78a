#include "shoal/ops/cast.hpp"

#include <fmt/format.h>

#include <cstring>

#include "kernels/cpu/cast.hpp"
#include "shoal/core/error.hpp"

namespace shoal::ops {

void cast(DType from_type, const void* from, DType to_type, void* to, std::int64_t count) {
  if (count < 0) throw ShapeError(fmt::format("cast of {} elements", count));
  if (count == 0) return;
  if (from_type == to_type) {
    std::memcpy(to, from, static_cast<std::size_t>(count * size_of(from_type)));
    return;
  }
  if (to_type == DType::f32 && from_type == DType::f16) return SHOAL_PICK(cast_f16_to_f32)(from, to, count);
  if (to_type == DType::f32 && from_type == DType::bf16) return SHOAL_PICK(cast_bf16_to_f32)(from, to, count);
  if (from_type == DType::f32 && to_type == DType::f16) return SHOAL_PICK(cast_f32_to_f16)(from, to, count);
  if (from_type == DType::f32 && to_type == DType::bf16) return SHOAL_PICK(cast_f32_to_bf16)(from, to, count);
  throw ShapeError(
      fmt::format("cast from {} to {}: only f16 and bf16 to f32 and back", name(from_type), name(to_type)));
}

}  // namespace shoal::ops
