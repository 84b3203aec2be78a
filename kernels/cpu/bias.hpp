#pragma once
#include "kernels/common/isa.hpp"

// db[p][n] (+)= the sum of dy[p] [m, n] over rows; db_piece floats from one piece of db to the next.
SHOAL_KERNEL(void bias_backward(const float* dy, float* db, std::int64_t db_piece, std::int64_t pieces,
                                std::int64_t m, std::int64_t n, bool accumulate))
// y[i] = the tree's sum of x[0][i], ..., x[leaves - 1][i]; y may be x.
SHOAL_KERNEL(void tree_sum(const float* x, float* y, std::int64_t leaves, std::int64_t n))
