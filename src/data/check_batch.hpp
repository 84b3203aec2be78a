// Throws ShapeError unless `t` is i32 [count, seq] or [count * seq] on the host.
#pragma once
#include <cstdint>

#include "shoal/core/tensor.hpp"

namespace shoal::data {

void check_batch(const char* what, const Tensor& t, std::int64_t count, std::int64_t seq);

}  // namespace shoal::data
