// 16-bit floats to and from FP32: 2 bytes read and 4 written an element, or the reverse, and a few operations on
// eight at a time: bound by memory.
#include "kernels/cpu/cast.hpp"

#include "kernels/common/half.hpp"

namespace shoal::kernels::SHOAL_ISA {

void cast_f16_to_f32(const void* from, void* to, std::int64_t count) {
  f16_to_f32(static_cast<const uint16_t*>(from), static_cast<float*>(to), count);
}
void cast_f32_to_f16(const void* from, void* to, std::int64_t count) {
  f32_to_f16(static_cast<const float*>(from), static_cast<uint16_t*>(to), count);
}
void cast_bf16_to_f32(const void* from, void* to, std::int64_t count) {
  bf16_to_f32(static_cast<const uint16_t*>(from), static_cast<float*>(to), count);
}
void cast_f32_to_bf16(const void* from, void* to, std::int64_t count) {
  f32_to_bf16(static_cast<const float*>(from), static_cast<uint16_t*>(to), count);
}

}  // namespace shoal::kernels::SHOAL_ISA
