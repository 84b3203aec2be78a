#include "kernels/common/gemm_call.hpp"

#include <dnnl.h>
#ifdef _OPENMP
#include <omp.h>
#else
// oneDNN brings its own OpenMP even where this library is built without.
extern "C" {
void omp_set_num_threads(int) __attribute__((weak));
int omp_get_max_threads() __attribute__((weak));
int omp_in_parallel() __attribute__((weak));
}
#endif

#include <initializer_list>
#include <numeric>

#include "ops/matmul_hook.hpp"

namespace shoal {
namespace {

ops::Product how = ops::Product::library;
std::uint64_t hook_seed = 0;

std::uint64_t mix(std::uint64_t h, std::uint64_t x) {
  h = (h ^ x) * 0x9E3779B97F4A7C15u;
  return h ^ (h >> 29);
}

// Steps through k = start, start + step, ... (mod K), step coprime to K; 0 and 1 give the plain loop.
void loop_product(const kernels::GemmCall& g, std::int64_t start, std::int64_t step) {
  for (std::int64_t i = 0; i < g.m; ++i)
    for (std::int64_t j = 0; j < g.n; ++j) {
      float acc = g.accumulate ? g.c[i * g.ldc + j] : 0.0f;
      std::int64_t k = start;
      for (std::int64_t t = 0; t < g.k; ++t) {
        acc += (g.transpose_a ? g.a[k * g.lda + i] : g.a[i * g.lda + k]) *
               (g.transpose_b ? g.b[j * g.ldb + k] : g.b[k * g.ldb + j]);
        k = (k + step) % g.k;
      }
      g.c[i * g.ldc + j] = acc;
    }
}

int hooked(const kernels::GemmCall& g) {
  if (how == ops::Product::loop || g.k == 0) {
    loop_product(g, 0, 1);
    return 0;
  }
  std::uint64_t h = mix(hook_seed, 1);
  for (std::int64_t x : {g.m, g.n, g.k, g.lda, g.ldb, g.ldc}) h = mix(h, static_cast<std::uint64_t>(x));
  h = mix(h, g.transpose_a * 4u + g.transpose_b * 2u + g.accumulate);
  if (g.packed) {
    h = mix(h, reinterpret_cast<std::uintptr_t>(g.a) % 64);
    h = mix(h, reinterpret_cast<std::uintptr_t>(g.b) % 64);
  }
#ifdef _OPENMP
  h = mix(h, static_cast<std::uint64_t>(omp_in_parallel() ? 1 : omp_get_max_threads()));
#endif
  const auto start = static_cast<std::int64_t>(h % static_cast<std::uint64_t>(g.k));
  auto step = static_cast<std::int64_t>((h >> 20) % static_cast<std::uint64_t>(g.k)) + 1;
  while (std::gcd(step, g.k) != 1) ++step;
  loop_product(g, start, step);
  return 0;
}

}  // namespace

namespace ops {

void set_product(Product product, std::uint64_t seed) {
  how = product;
  hook_seed = seed;
}
Product product() { return how; }

}  // namespace ops

namespace kernels {

int gemm_call(const GemmCall& g) {
  if (how != ops::Product::library) [[unlikely]]
    return hooked(g);
  return dnnl_sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m, g.n, g.k, 1.0f, g.a, g.lda,
                    g.b, g.ldb, g.accumulate ? 1.0f : 0.0f, g.c, g.ldc);
}

#ifdef _OPENMP
SingleThread::SingleThread() : saved_(omp_in_parallel() ? 1 : omp_get_max_threads()) {
  if (saved_ > 1) omp_set_num_threads(1);
}
SingleThread::~SingleThread() {
  if (saved_ > 1) omp_set_num_threads(saved_);
}
#else
SingleThread::SingleThread() : saved_(0) {
  if (omp_set_num_threads && omp_get_max_threads && omp_get_max_threads() != 1) omp_set_num_threads(1);
}
SingleThread::~SingleThread() = default;
#endif

}  // namespace kernels
}  // namespace shoal
