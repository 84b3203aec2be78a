#pragma once
#include "kernels/common/isa.hpp"
#include "kernels/common/storage_code.hpp"

// db[p][n] (+)= the sum of dy[p] [m, n], of `type`, over rows; db_piece floats from one piece of db to the next.
SHOAL_KERNEL(void bias_backward(Storage type, const void* dy, float* db, std::int64_t db_piece,
                                std::int64_t pieces, std::int64_t m, std::int64_t n, bool accumulate))
// y[i], of `type`, = the tree's sum of x[0][i], ..., x[leaves - 1][i]; y may be x where it is FP32.
SHOAL_KERNEL(void tree_sum(const float* x, Storage type, void* y, std::int64_t leaves, std::int64_t n))
