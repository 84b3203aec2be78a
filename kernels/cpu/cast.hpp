#pragma once
#include "kernels/common/isa.hpp"

SHOAL_KERNEL(void cast_f16_to_f32(const void* from, void* to, std::int64_t count))
SHOAL_KERNEL(void cast_f32_to_f16(const void* from, void* to, std::int64_t count))
SHOAL_KERNEL(void cast_bf16_to_f32(const void* from, void* to, std::int64_t count))
SHOAL_KERNEL(void cast_f32_to_bf16(const void* from, void* to, std::int64_t count))
