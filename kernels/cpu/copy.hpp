#pragma once
#include "kernels/common/isa.hpp"

SHOAL_KERNEL(void copy_past_caches(const void* from, void* to, std::int64_t bytes))
