// AdamW, SGD and the sums of squares of chunks. Bound by memory: AdamW reads 16 and writes 12 bytes an
// element, SGD reads 12 and writes 8, the sum reads 4. Every array is read once. The updates are elementwise,
// a chunk's sum is one iteration: any partition at multiples of a chunk gives the same bits.
#include "kernels/cpu/optimizer.hpp"

#include "kernels/common/columns.hpp"
#include "kernels/common/parallel.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

constexpr int64_t grain = 4096, chunk = 256;

template <bool momentum, bool first, bool nesterov>
void sgd(float* p, const float* grad, float* buf, int64_t n, const SgdArgs& a) {
  parallel_blocks(n, grain, n * 20, [=](int64_t begin, int64_t end) {
    over_columns(begin, end, [=](int64_t i, auto part) {
      const vf w = part.get(p + i);
      vf g = fma(set1(a.weight_decay), w, part.get(grad + i) * set1(a.grad_scale));
      if constexpr (momentum) {
        const vf b = first ? g : fma(set1(a.momentum), part.get(buf + i), g);
        part.put(buf + i, b);
        g = nesterov ? fma(set1(a.momentum), b, g) : b;
      }
      part.put(p + i, fma(set1(-a.lr), g, w));
    });
  });
}

}  // namespace

void adamw_step(float* p, const float* grad, float* m, float* v, int64_t n, const AdamWArgs& a) {
  parallel_blocks(n, grain, n * 28, [=](int64_t begin, int64_t end) {
    over_columns(begin, end, [=](int64_t i, auto part) {
      const vf g = part.get(grad + i) * set1(a.grad_scale);
      const vf m1 = fma(set1(a.beta1), part.get(m + i), set1(a.one_minus_beta1) * g);
      const vf v1 = fma(set1(a.beta2), part.get(v + i), set1(a.one_minus_beta2) * (g * g));
      part.put(m + i, m1);
      part.put(v + i, v1);
      // Beyond the end the tail divides 0 by eps, which may be 0 too: nothing of it is stored.
      const vf update = m1 / fma(vsqrt(v1), set1(a.inv_sqrt_bias2), set1(a.eps));
      part.put(p + i, fma(set1(-a.step_size), update, part.get(p + i) * set1(a.decay)));
    });
  });
}

void sgd_step(float* p, const float* grad, float* buf, int64_t n, const SgdArgs& a) {
  if (buf == nullptr)
    sgd<false, false, false>(p, grad, buf, n, a);
  else if (a.first)
    a.nesterov ? sgd<true, true, true>(p, grad, buf, n, a) : sgd<true, true, false>(p, grad, buf, n, a);
  else
    a.nesterov ? sgd<true, false, true>(p, grad, buf, n, a) : sgd<true, false, false>(p, grad, buf, n, a);
}

// Lane j adds the squares of elements j, j + 16, j + 32, ... (exact in FP64); lanes are added by halves.
void chunk_sum_squares(const float* x, double* out, int64_t chunks) {
  parallel_blocks(chunks, 64, chunks * chunk * 4, [=](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const float* at = x + c * chunk;
      double sum[lanes];
#if defined(SHOAL_ISA_avx2) || defined(SHOAL_ISA_avx512)
      __m256d s[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()};
      for (int64_t i = 0; i < chunk; i += lanes)
        for (int q = 0; q < 4; ++q) {
          const __m256d v = _mm256_cvtps_pd(_mm_loadu_ps(at + i + 4 * q));
          s[q] = _mm256_fmadd_pd(v, v, s[q]);  // the product is exact: as good as multiplying and adding
        }
      for (int q = 0; q < 4; ++q) _mm256_storeu_pd(sum + 4 * q, s[q]);
#else
      for (int j = 0; j < lanes; ++j) sum[j] = 0.0;
      for (int64_t i = 0; i < chunk; i += lanes)
        for (int j = 0; j < lanes; ++j) {
          const double v = static_cast<double>(at[i + j]);
          sum[j] = sum[j] + v * v;
        }
#endif
      for (int half = lanes / 2; half > 0; half /= 2)
        for (int j = 0; j < half; ++j) sum[j] = sum[j] + sum[j + half];
      out[c] = sum[0];
    }
  });
}

}  // namespace shoal::kernels::SHOAL_ISA
