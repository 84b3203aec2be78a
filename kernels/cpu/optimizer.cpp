// Updates of parameters and the sums of squares of chunks. Bound by memory: AdamW reads 16 and writes 12 bytes an
// element, SGD and Lion read 12 and write 8, the sum reads 4; values of 16 bits beside FP32 ones are two bytes more,
// written in the same pass. Every array is read once. The updates are elementwise, a chunk's sum is one iteration: any
// partition at multiples of a chunk gives the same bits.
#include "kernels/cpu/optimizer.hpp"

#include "kernels/common/columns.hpp"
#include "kernels/common/parallel.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

constexpr int64_t grain = 4096, chunk = 256;

// p[i], and its rounded copy, = value(i, part), which reads p among others.
template <class Value>
void update(const Target& to, int64_t n, int64_t work, const Value& value) {
  const auto run = [&](auto* narrow) {
    float* p = to.p;
    parallel_blocks(n, grain, work, [=](int64_t begin, int64_t end) {
      over_columns(begin, end, [=](int64_t i, auto part) {
        const vf x = value(i, part);
        part.put(p + i, x);
        if constexpr (sizeof(*narrow) < sizeof(float)) part.put(narrow + i, x);
      });
    });
  };
  if (to.narrow == nullptr || to.type == Storage::f32)
    run(static_cast<float*>(nullptr));
  else if (to.type == Storage::bf16)
    run(static_cast<bf16*>(to.narrow));
  else
    run(static_cast<f16*>(to.narrow));
}

template <bool momentum, bool first, bool nesterov>
void sgd(const Target& to, const float* grad, float* buf, int64_t n, const SgdArgs& a) {
  update(to, n, n * 20, [=, p = to.p](int64_t i, auto part) {
    const vf w = part.get(p + i);
    vf g = fma(set1(a.weight_decay), w, part.get(grad + i) * set1(a.grad_scale));
    if constexpr (momentum) {
      const vf b = first ? g : fma(set1(a.momentum), part.get(buf + i), g);
      part.put(buf + i, b);
      g = nesterov ? fma(set1(a.momentum), b, g) : b;
    }
    return fma(set1(-a.lr), g, w);
  });
}

struct Yes {
  static constexpr bool value = true;
};
struct No {
  static constexpr bool value = false;
};

// Both averages of Adam, updated; gives back m and the denominator.
struct Moments {
  vf m, denominator;
};
template <class Part>
inline Moments moments(const AdamWArgs& a, vf g, float* m, float* v, int64_t i, Part part) {
  const vf m1 = fma(set1(a.beta1), part.get(m + i), set1(a.one_minus_beta1) * g);
  const vf v1 = fma(set1(a.beta2), part.get(v + i), set1(a.one_minus_beta2) * (g * g));
  part.put(m + i, m1);
  part.put(v + i, v1);
  // Beyond the end the tail divides 0 by eps, which may be 0 too: nothing of it is stored.
  return {m1, fma(vsqrt(v1), set1(a.inv_sqrt_bias2), set1(a.eps))};
}

}  // namespace

void adamw_step(const Target& to, const float* grad, float* m, float* v, int64_t n, const AdamWArgs& a) {
  const auto step = [&](auto coupled) {
    update(to, n, n * 28, [=, p = to.p](int64_t i, auto part) {
      const vf w = part.get(p + i);
      vf g = part.get(grad + i) * set1(a.grad_scale);
      if constexpr (coupled.value) g = fma(set1(a.weight_decay), w, g);
      const Moments u = moments(a, g, m, v, i, part);
      return fma(set1(-a.step_size), u.m / u.denominator, w * set1(a.decay));
    });
  };
  a.weight_decay != 0.0f ? step(Yes{}) : step(No{});
}

void sgd_step(const Target& to, const float* grad, float* buf, int64_t n, const SgdArgs& a) {
  if (buf == nullptr)
    sgd<false, false, false>(to, grad, buf, n, a);
  else if (a.first)
    a.nesterov ? sgd<true, true, true>(to, grad, buf, n, a) : sgd<true, true, false>(to, grad, buf, n, a);
  else
    a.nesterov ? sgd<true, false, true>(to, grad, buf, n, a) : sgd<true, false, false>(to, grad, buf, n, a);
}

void lion_step(const Target& to, const float* grad, float* m, int64_t n, const LionArgs& a) {
  update(to, n, n * 20, [=, p = to.p](int64_t i, auto part) {
    const vf g = part.get(grad + i) * set1(a.grad_scale), old = part.get(m + i), zero = set1(0.0f);
    const vf c = fma(set1(a.beta1), old, set1(a.one_minus_beta1) * g);
    part.put(m + i, fma(set1(a.beta2), old, set1(a.one_minus_beta2) * g));
    const vf sign = select(less(zero, c), set1(1.0f), select(less(c, zero), set1(-1.0f), zero));
    return fma(set1(-a.lr), sign, part.get(p + i) * set1(a.decay));
  });
}

void scaled_step(const Target& to, const float* u, int64_t n, float decay, float lr) {
  update(to, n, n * 12, [=, p = to.p](int64_t i, auto part) {
    return fma(set1(-lr), part.get(u + i), part.get(p + i) * set1(decay));
  });
}

void adam_direction(const void* p, Storage type, float* grad, float* m, float* v, int64_t n,
                    const AdamWArgs& a) {
  with_storage(type, [=](auto* t) {
    const auto* w = static_cast<const __typeof__(*t)*>(p);
    update({grad, nullptr, Storage::f32}, n, n * 28, [=](int64_t i, auto part) {
      const Moments u = moments(a, part.get(grad + i) * set1(a.grad_scale), m, v, i, part);
      return fma(set1(a.weight_decay), part.get(w + i), (u.m * set1(a.step_size)) / u.denominator);
    });
  });
}

void momentum_direction(float* grad, float* buf, int64_t n, float momentum, float one_minus_momentum,
                        float grad_scale, bool nesterov) {
  update({grad, nullptr, Storage::f32}, n, n * 16, [=](int64_t i, auto part) {
    const vf g = set1(one_minus_momentum) * (part.get(grad + i) * set1(grad_scale));
    const vf b = fma(set1(momentum), part.get(buf + i), g);
    part.put(buf + i, b);
    return nesterov ? fma(set1(momentum), b, g) : b;
  });
}

void average_step(float* average, const void* p, Storage type, int64_t n, float decay, float rest) {
  with_storage(type, [=](auto* t) {
    const auto* x = static_cast<const __typeof__(*t)*>(p);
    update({average, nullptr, Storage::f32}, n, n * 12, [=](int64_t i, auto part) {
      return fma(set1(decay), part.get(average + i), set1(rest) * part.get(x + i));
    });
  });
}

void scale_clamp(float* x, int64_t n, float factor, float limit) {
  update({x, nullptr, Storage::f32}, n, n * 8, [=](int64_t i, auto part) {
    return min(set1(limit), max(set1(-limit), part.get(x + i) * set1(factor)));  // NaN stays: see vec.hpp
  });
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
