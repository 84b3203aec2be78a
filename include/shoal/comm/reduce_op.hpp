// How a collective combines elements.
#pragma once
#include <string_view>

namespace shoal {

// 16-bit types are accumulated in FP32 and rounded once. average divides the sum once, by the rank count.
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

}  // namespace shoal
