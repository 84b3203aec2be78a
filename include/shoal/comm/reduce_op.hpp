// How a collective combines elements.
#pragma once
#include <string_view>

namespace shoal {

// 16-bit types are accumulated in FP32 and rounded once. average divides the sum once, by the rank count, and
// is for floating-point types only.
enum class ReduceOp : unsigned char { sum, average, min, max, product };

constexpr std::string_view name(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return "sum";
    case ReduceOp::average: return "average";
    case ReduceOp::min: return "min";
    case ReduceOp::max: return "max";
    case ReduceOp::product: return "product";
  }
  return "?";
}

// What a reduction does: an operation, or the pre-scaled sum. There each rank's input is multiplied by that
// rank's own scale, in the type the sum is accumulated in (f32 for f32, f16 and bf16; f64 for f64), before it
// is summed. All ranks must agree whether they scale; their scales may differ.
struct Reduction {
  ReduceOp op = ReduceOp::sum;
  bool scaled = false;
  double scale = 1.0;

  constexpr Reduction() = default;
  constexpr Reduction(ReduceOp how) : op(how) {}  // NOLINT: a ReduceOp is a Reduction
  // A pre-scaled sum; with another operation than sum it is refused where it is used.
  constexpr Reduction(ReduceOp how, double factor) : op(how), scaled(true), scale(factor) {}
};

}  // namespace shoal
