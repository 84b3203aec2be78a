#include "support/plain/math.hpp"

#include <cmath>

#define SHOAL_ISA plain_reference
#include "kernels/common/vec.hpp"
#include "shoal/core/tensor.hpp"
#include "shoal/core/threads.hpp"
#include "shoal/ops/matmul.hpp"

namespace shoal::plain {
namespace {

namespace k = kernels::plain_reference;

float first(k::vf v) {
  float lane[k::lanes];
  k::store(lane, v);
  return lane[0];
}

}  // namespace

float exp(float x) { return first(k::vexp(k::set1(x))); }
float sigmoid(float x) { return first(k::vsigmoid(k::set1(x))); }
float gelu(float x) { return first(k::vgelu(k::set1(x))); }
float gelu_derivative(float x) { return first(k::vgelu_derivative(k::set1(x))); }

float lanes(std::int64_t n, const std::function<float(float, std::int64_t)>& add) {
  float lane[16] = {};
  for (std::int64_t i = 0; i < n; ++i) lane[i % 16] = add(lane[i % 16], i);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] = lane[i] + lane[i + half];
  return lane[0];
}

void tree(std::vector<Vec>& y) {
  for (std::size_t d = 1; d < y.size(); d *= 2)
    for (std::size_t i = 0; i + d < y.size(); i += 2 * d)
      for (std::size_t e = 0; e < y[i].size(); ++e) y[i][e] = y[i][e] + y[i + d][e];
}

void product(bool loop, bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
             const float* b, float* c, bool accumulate) {
  if (loop) {
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        float sum = accumulate ? c[i * n + j] : 0.0f;
        for (std::int64_t l = 0; l < k; ++l) {
          const float term = (ta ? a[l * m + i] : a[i * k + l]) * (tb ? b[j * k + l] : b[l * n + j]);
          sum = sum + term;
        }
        c[i * n + j] = sum;
      }
    return;
  }
  const Stream stream = Stream::create({});
  const auto matrix = [](const float* p, std::int64_t rows, std::int64_t columns) {
    return Tensor::from_blob(const_cast<float*>(p), {1, rows, columns}, DType::f32, {});
  };
  const int threads = num_threads();
  set_num_threads(1);
  ops::matmul(stream, ta ? matrix(a, k, m) : matrix(a, m, k), tb ? matrix(b, n, k) : matrix(b, k, n),
              matrix(c, m, n), {ta, tb, accumulate});
  set_num_threads(threads);
}

float Drop::operator()(float x, std::uint64_t index) const {
  if (p == 0) return x;
  return key.bits(index) >= dropout_threshold(p) ? x * static_cast<float>(1.0 / (1.0 - p)) : 0.0f;
}

}  // namespace shoal::plain
