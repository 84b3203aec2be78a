// Conversions between floating-point types: host functions on raw memory, called from communication threads.
#pragma once
#include <cstdint>

#include "shoal/core/dtype.hpp"

namespace shoal::ops {

// to[i] = from[i], for f16 or bf16 to f32 (exact) and f32 to f16 or bf16 (to nearest, ties to even; above the largest
// to infinity; NaN stays NaN). The same type is a copy. The arrays must not overlap. Throws ShapeError for other pairs.
void cast(DType from_type, const void* from, DType to_type, void* to, std::int64_t count);

}  // namespace shoal::ops
