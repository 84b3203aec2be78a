// What the tests of operations share: random tensors from a printed seed, FP64 copies, the tolerance of
// docs/numerics.md, comparison of bits, finite differences.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/common/isa.hpp"
#include "shoal/core/tensor.hpp"
#include "shoal/core/threads.hpp"

namespace shoal::test {

// Sizes that are multiples of nothing, and the empty one.
inline const std::vector<std::int64_t>& odd_sizes() {
  static const std::vector<std::int64_t> sizes = {0, 1, 31, 33, 257};
  return sizes;
}

// Numbers from a seed that is printed; another one is tried with --gtest_random_seed=N.
class Random {
 public:
  Random() : engine_(seed()) { std::printf("[   seed   ] --gtest_random_seed=%u\n", seed()); }
  double uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(engine_);
  }
  double normal(double sigma = 1.0) { return std::normal_distribution<double>(0.0, sigma)(engine_); }
  std::int64_t integer(std::int64_t low, std::int64_t high) {  // both included
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }

 private:
  static unsigned seed() { return static_cast<unsigned>(GTEST_FLAG_GET(random_seed)); }
  std::mt19937_64 engine_;
};

// f32, normal with mean `mean`.
inline Tensor random_tensor(const Stream& s, const Shape& shape, Random& random, double sigma = 1.0,
                            double mean = 0.0) {
  const Tensor t = Tensor::empty(shape, DType::f32, s);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.as<float>()[i] = static_cast<float>(mean + random.normal(sigma));
  return t;
}

template <class T>
Tensor tensor_of(const Stream& s, const Shape& shape, const std::vector<T>& values) {
  const Tensor t = Tensor::empty(shape, dtype_of<T>::value, s);
  if (static_cast<std::int64_t>(values.size()) != t.numel()) throw std::logic_error("tensor_of: wrong count");
  if (!values.empty()) std::memcpy(t.data(), values.data(), values.size() * sizeof(T));
  return t;
}

// f32, every element the same.
inline Tensor filled(const Stream& s, const Shape& shape, float value) {
  const Tensor t = Tensor::empty(shape, DType::f32, s);
  for (std::int64_t i = 0; i < t.numel(); ++i) t.as<float>()[i] = value;
  return t;
}

inline Tensor clone(const Stream& s, const Tensor& t) {
  const Tensor c = Tensor::empty(t.shape(), t.dtype(), s);
  s.synchronize();
  if (t.nbytes() > 0) std::memcpy(c.data(), t.data(), static_cast<std::size_t>(t.nbytes()));
  return c;
}

inline std::vector<double> values(const Tensor& t) {
  std::vector<double> v(static_cast<std::size_t>(t.numel()));
  for (std::size_t i = 0; i < v.size(); ++i)
    v[i] = t.dtype() == DType::f64 ? t.as<double>()[i] : static_cast<double>(t.as<float>()[i]);
  return v;
}

inline double norm2(const std::vector<double>& v) {
  double s = 0.0;
  for (double x : v) s += x * x;
  return std::sqrt(s);
}

// |got - want| <= tolerance max(|want|, |inputs|) in the 2-norm; `inputs` are all that the operation read.
inline ::testing::AssertionResult close(const Tensor& got, const std::vector<double>& want,
                                        std::initializer_list<Tensor> inputs, double tolerance = 1e-5) {
  const std::vector<double> x = values(got);
  if (x.size() != want.size())
    return ::testing::AssertionFailure() << x.size() << " elements, expected " << want.size();
  double squares = 0.0;
  for (const Tensor& t : inputs)
    if (t.defined()) squares += std::pow(norm2(values(t)), 2);
  const double scale = std::max(norm2(want), std::sqrt(squares));
  double error = 0.0, worst = -1.0;
  std::size_t where = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = std::abs(x[i] - want[i]);
    error += d * d;
    if (!(d <= worst)) worst = d, where = i;
  }
  error = std::sqrt(error);
  if (error <= tolerance * scale) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << got.str() << ": |x - x64| = " << error << " > " << tolerance << " * " << scale << "; worst at "
         << where << ": " << x[where] << ", expected " << want[where];
}

inline ::testing::AssertionResult same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape()))
    return ::testing::AssertionFailure() << a.str() << " and " << b.str();
  const auto* p = static_cast<const unsigned char*>(a.data());
  const auto* q = static_cast<const unsigned char*>(b.data());
  for (std::int64_t i = 0; i < a.nbytes(); ++i) {
    if (p[i] == q[i]) continue;
    const std::int64_t e = i / size_of(a.dtype());
    auto failure = ::testing::AssertionFailure() << a.str() << " differs first at element " << e;
    if (a.dtype() == DType::f32)
      failure << std::hexfloat << ": " << a.as<float>()[e] << " and " << b.as<float>()[e];
    return failure;
  }
  return ::testing::AssertionSuccess();
}

// Holds an FP64 gradient against central differences of `f` at x; f must be smooth. For small x only.
inline ::testing::AssertionResult gradient_matches(const std::function<double(const std::vector<double>&)>& f,
                                                   std::vector<double> x, const std::vector<double>& gradient,
                                                   double tolerance = 1e-6) {
  double scale = 1e-3;
  for (double g : gradient) scale = std::max(scale, std::abs(g));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double h = 1e-5 * std::max(1.0, std::abs(x[i])), at = x[i];
    x[i] = at + h;
    const double up = f(x);
    x[i] = at - h;
    const double down = f(x);
    x[i] = at;
    const double difference = (up - down) / (2 * h);
    if (!(std::abs(difference - gradient[i]) <= tolerance * scale))
      return ::testing::AssertionFailure() << "d/dx[" << i << "]: difference quotient " << difference
                                           << ", reference gradient " << gradient[i];
  }
  return ::testing::AssertionSuccess();
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double s = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) s += a[i] * b[i];
  return s;
}

// Runs body() with 1, 2 and 3 threads in turn and gives back what it returned.
template <class F>
auto with_thread_counts(const F& body) {
  const int before = num_threads();
  std::vector<decltype(body())> results;
  for (int n : {1, 2, 3}) {
    set_num_threads(n);
    results.push_back(body());
  }
  set_num_threads(before);
  return results;
}

// The kernel f of every instruction set that this machine can run, as function pointers, generic first.
#if defined(__x86_64__)
#define SHOAL_ALL_ISAS(f)  \
  ::shoal::test::runnable( \
      {&::shoal::kernels::generic::f, &::shoal::kernels::avx2::f, &::shoal::kernels::avx512::f})
#else
#define SHOAL_ALL_ISAS(f) ::shoal::test::runnable({&::shoal::kernels::generic::f})
#endif
template <class F>
std::vector<F> runnable(std::initializer_list<F> kernels) {
  const std::size_t n = isa() == Isa::avx512 ? 3 : isa() == Isa::avx2 ? 2 : 1;
  return std::vector<F>(kernels.begin(), kernels.begin() + std::min(n, kernels.size()));
}

}  // namespace shoal::test
