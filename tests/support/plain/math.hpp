// The scalars and sums of docs/numerics.md, one element at a time. Everything here is meant to be read beside that
// page: no vectors, no threads, no library but the library's own exp (whose scalar form is one lane of it) and, for
// matrix products, the library's own call on dense pieces (R2), or a loop.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "shoal/core/random.hpp"

namespace shoal::plain {

using Vec = std::vector<float>;

float sigmoid(float x);
float gelu(float x);
float gelu_derivative(float x);
float exp(float x);

// Element i is added to lane i mod 16, upward; then lanes by halves. add(sum, i) returns the new lane.
float lanes(std::int64_t n, const std::function<float(float, std::int64_t)>& add);

// y[0] becomes the tree's sum of the n vectors y (R3): distance 1, then 2, 4, ...
void tree(std::vector<Vec>& y);
template <class T>
T tree_of(std::vector<T> y) {
  for (std::size_t d = 1; d < y.size(); d *= 2)
    for (std::size_t i = 0; i + d < y.size(); i += 2 * d) y[i] = y[i] + y[i + d];
  return y.empty() ? T{} : y[0];
}

// C[m x n] = A[m x k] B[k x n] (+ C). A is stored [k x m] when ta, B [n x k] when tb. `loop`: each element adds
// a b for k upward, rounding each product and each sum; otherwise the library's single-thread product.
void product(bool loop, bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
             const float* b, float* c, bool accumulate);

// Dropout: keeps x / (1 - p) of number `index` of the key, else +0. p = 0 keeps x as it is.
struct Drop {
  double p = 0;
  RandomKey key;
  float operator()(float x, std::uint64_t index) const;
};

}  // namespace shoal::plain
