// Adafactor on a whole tensor. Bound by memory: a matrix is read for its rows' sums, again for its columns' (in strips
// that share cache lines among no two threads), and read and written once more by the update: 16 bytes an element. Each
// sum is one iteration's, so threads change nothing.
#include "kernels/cpu/adafactor.hpp"

#include "kernels/common/columns.hpp"
#include "kernels/common/parallel.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

// G^2 + eps of an element.
inline double square(float g, const AdafactorArgs& a) {
  const double x = static_cast<double>(g * a.grad_scale);
  return x * x + a.eps;
}

double row_sum(const float* g, int64_t n, const AdafactorArgs& a) {
  double sum[lanes] = {};
  for (int64_t i = 0; i < n; ++i) sum[i % lanes] += square(g[i], a);
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) sum[j] = sum[j] + sum[j + half];
  return sum[0];
}

// state = decay state + rest sums; gives back its sum, upward.
double average(float* state, const double* sums, int64_t n, const AdafactorArgs& a) {
  double total = 0;
  for (int64_t i = 0; i < n; ++i) {
    state[i] = static_cast<float>(a.decay * static_cast<double>(state[i]) + a.rest * sums[i]);
    total += static_cast<double>(state[i]);
  }
  return total;
}

}  // namespace

void adafactor_matrix(float* g, int64_t rows, int64_t columns, float* row_state, float* column_state,
                      double* sums, float* factors, const AdafactorArgs& a) {
  parallel_for(rows, rows * columns * 4, [=](int64_t r) { sums[r] = row_sum(g + r * columns, columns, a); });
  constexpr int64_t strip = 64;
  parallel_blocks(columns, strip, rows * columns * 4, [=](int64_t begin, int64_t end) {
    double sum[strip] = {};
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = begin; c < end; ++c) sum[c - begin] += square(g[r * columns + c], a);
    for (int64_t c = begin; c < end; ++c) sums[rows + c] = sum[c - begin];
  });
  const double total = average(row_state, sums, rows, a);
  average(column_state, sums + rows, columns, a);
  float* column_factors = factors + rows;
  for (int64_t r = 0; r < rows; ++r)
    factors[r] = static_cast<float>(__builtin_sqrt(total / static_cast<double>(row_state[r])));
  for (int64_t c = 0; c < columns; ++c)
    column_factors[c] = static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(column_state[c])));
  parallel_for(rows, rows * columns * 8, [=](int64_t r) {
    float* x = g + r * columns;
    const vf factor = set1(factors[r]), scale = set1(a.grad_scale);
    over_columns(0, columns, [=](int64_t i, auto part) {
      part.put(x + i, ((part.get(x + i) * scale) * factor) * part.get(column_factors + i));
    });
  });
}

void adafactor_vector(float* g, int64_t n, float* v, const AdafactorArgs& a) {
  parallel_blocks(n, 4096, n * 16, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      v[i] = static_cast<float>(a.decay * static_cast<double>(v[i]) + a.rest * square(g[i], a));
      g[i] = static_cast<float>(static_cast<double>(g[i] * a.grad_scale) /
                                __builtin_sqrt(static_cast<double>(v[i])));
    }
  });
}

}  // namespace shoal::kernels::SHOAL_ISA
