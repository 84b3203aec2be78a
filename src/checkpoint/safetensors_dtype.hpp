// The names of element types in safetensors files.
#pragma once
#include <optional>
#include <string_view>

#include "shoal/core/dtype.hpp"

namespace shoal::checkpoint {

struct DTypeName {
  DType dtype;
  std::string_view text;
};
inline constexpr DTypeName dtype_names[] = {
    {DType::f32, "F32"}, {DType::f64, "F64"}, {DType::f16, "F16"}, {DType::bf16, "BF16"}, {DType::i32, "I32"},
    {DType::i64, "I64"}, {DType::u8, "U8"},   {DType::u16, "U16"}, {DType::u32, "U32"},
};

inline std::string_view safetensors_name(DType dtype) {
  for (const DTypeName& n : dtype_names)
    if (n.dtype == dtype) return n.text;
  return "?";
}
inline std::optional<DType> parse_safetensors_dtype(std::string_view text) {
  for (const DTypeName& n : dtype_names)
    if (n.text == text) return n.dtype;
  return std::nullopt;
}

}  // namespace shoal::checkpoint
