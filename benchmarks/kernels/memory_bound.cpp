// The operations that are bound by memory, as GB/s of algorithmic bytes; README.md defines the figures.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "shoal/core/threads.hpp"
#include "shoal/ops/activation.hpp"
#include "shoal/ops/cross_entropy.hpp"
#include "shoal/ops/dropout.hpp"
#include "shoal/ops/embedding.hpp"
#include "shoal/ops/norm.hpp"
#include "shoal/ops/optimizer.hpp"
#include "shoal/ops/rotary.hpp"

namespace shoal {
namespace {

const Stream& stream() {
  static const Stream s = Stream::create({});
  return s;
}

Tensor numbers(const Shape& shape, float low = -1.0f, float high = 1.0f) {
  static std::minstd_rand engine(1);
  std::uniform_real_distribution<float> uniform(low, high);
  const Tensor t = Tensor::empty(shape, DType::f32, stream());
  for (std::int64_t i = 0; i < t.numel(); ++i) t.as<float>()[i] = uniform(engine);
  return t;
}

Tensor ids(std::int64_t n, std::int64_t vocab) {
  static std::minstd_rand engine(2);
  const Tensor t = Tensor::empty({n}, DType::i32, stream());
  for (std::int64_t i = 0; i < n; ++i) t.as<std::int32_t>()[i] = static_cast<std::int32_t>(engine() % vocab);
  return t;
}

// Runs `op` and reports `bytes` a call over its wall time.
template <class Op>
void measure(benchmark::State& state, std::int64_t bytes, const Op& op) {
  op();
  for (auto _ : state) op();
  state.SetBytesProcessed(state.iterations() * bytes);
}

ops::Dropout dropout(double p) {
  return {.p = p,
          .key = {.seed = 1, .purpose = Purpose::dropout_ffn_out, .batch = 1, .layer = 1},
          .first_sample = 0};
}

// The machine's copy: the yardstick. Arguments: tokens, hidden (as for all the others).
void copy_bandwidth(benchmark::State& state) {
  const Tensor x = numbers({state.range(0), state.range(1)}), y = numbers(x.shape());
  const std::int64_t n = x.numel(), half = n / 2;
  measure(state, n * 8, [&] {
#pragma omp parallel for
    for (int i = 0; i < 2; ++i)
      std::memcpy(y.as<float>() + i * half, x.as<float>() + i * half,
                  static_cast<std::size_t>(half) * sizeof(float));
    benchmark::ClobberMemory();
  });
}

struct Rows {
  std::int64_t M, H, n;
  Tensor x, y, z;
  explicit Rows(const benchmark::State& s)
      : M(s.range(0)), H(s.range(1)), n(M * H), x(numbers({M, H})), y(numbers({M, H})), z(numbers({M, H})) {}
};

void add(benchmark::State& state) {
  const Rows r(state);
  measure(state, r.n * 12, [&] { ops::add_(stream(), r.y, r.x); });
}
void residual(benchmark::State& state) {
  const Rows r(state);
  const Tensor bias = numbers({r.H});
  measure(state, r.n * 12, [&] { ops::residual_forward(stream(), r.x, r.z, bias, {}, r.M, r.y); });
}
void residual_dropout(benchmark::State& state) {
  const Rows r(state);
  const Tensor bias = numbers({r.H});
  measure(state, r.n * 12, [&] { ops::residual_forward(stream(), r.x, r.z, bias, dropout(0.1), r.M, r.y); });
}
void dropout_backward(benchmark::State& state) {
  const Rows r(state);
  measure(state, r.n * 8, [&] { ops::dropout_backward(stream(), r.x, dropout(0.1), r.M, r.y); });
}
void gelu_forward(benchmark::State& state) {
  const Rows r(state);
  measure(state, r.n * 8, [&] { ops::gelu_forward(stream(), r.x, r.y); });
}
void gelu_backward(benchmark::State& state) {
  const Rows r(state);
  measure(state, r.n * 12, [&] { ops::gelu_backward(stream(), r.z, r.x, r.y); });
}
void swiglu_forward(benchmark::State& state) {
  const Rows r(state);
  const Tensor gate_up = numbers({r.M, 2 * r.H});
  measure(state, r.n * 12, [&] { ops::swiglu_forward(stream(), gate_up, r.y); });
}
void swiglu_backward(benchmark::State& state) {
  const Rows r(state);
  const Tensor gate_up = numbers({r.M, 2 * r.H}), d = numbers({r.M, 2 * r.H});
  measure(state, r.n * 20, [&] { ops::swiglu_backward(stream(), r.x, gate_up, d); });
}
void rotary(benchmark::State& state) {
  const Rows r(state);
  const Tensor cos = numbers({r.M, 32}), sin = numbers({r.M, 32});
  const Tensor x = r.x.view({1, r.M, r.H});
  measure(state, r.n * 8, [&] {
    ops::rotary(stream(), {x, 0, r.H / 64}, r.H / 64, 64, 1, r.M, cos, sin, false);
  });
}

void layer_norm_forward(benchmark::State& state) {
  const Rows r(state);
  const Tensor w = numbers({r.H}), b = numbers({r.H}), mean = numbers({r.M}), rstd = numbers({r.M});
  measure(state, r.n * 8, [&] { ops::layer_norm_forward(stream(), r.x, w, b, 1e-5f, r.y, mean, rstd); });
}
void layer_norm_backward(benchmark::State& state) {
  const Rows r(state);
  const Tensor w = numbers({r.H}), mean = numbers({r.M}), rstd = numbers({r.M}), dres = numbers({r.M, r.H});
  const Tensor dw = numbers({1, r.H}), db = numbers({1, r.H});
  measure(state, r.n * 16,
          [&] { ops::layer_norm_backward(stream(), r.z, r.x, w, mean, rstd, dres, r.y, dw, db, true); });
}
void rms_norm_forward(benchmark::State& state) {
  const Rows r(state);
  const Tensor w = numbers({r.H}), rstd = numbers({r.M});
  measure(state, r.n * 8, [&] { ops::rms_norm_forward(stream(), r.x, w, 1e-5f, r.y, rstd); });
}
void rms_norm_backward(benchmark::State& state) {
  const Rows r(state);
  const Tensor w = numbers({r.H}), rstd = numbers({r.M}), dres = numbers({r.M, r.H}), dw = numbers({1, r.H});
  measure(state, r.n * 16, [&] { ops::rms_norm_backward(stream(), r.z, r.x, w, rstd, dres, r.y, dw, true); });
}

void embedding_forward(benchmark::State& state) {
  const Rows r(state);
  const Tensor tokens = ids(r.M, 256), word = numbers({256, r.H}), position = numbers({256, r.H});
  measure(state, r.n * 4, [&] { ops::embedding_forward(stream(), tokens, word, position, 256, {}, r.y); });
}
void embedding_backward(benchmark::State& state) {
  const Rows r(state);
  const Tensor tokens = ids(r.M, 256), word = numbers({256, r.H}), position = numbers({256, r.H});
  measure(state, r.n * 4,
          [&] { ops::embedding_backward(stream(), r.x, tokens, 256, {}, word, position, true); });
}

// Tokens and vocabulary.
void cross_entropy(benchmark::State& state) {
  const std::int64_t M = state.range(0), V = state.range(1);
  const Tensor logits = numbers({1, M, V}), d = numbers({1, M, V}), targets = ids(M, V), loss = numbers({M});
  measure(state, M * V * 8, [&] { ops::cross_entropy(stream(), logits, targets, V, loss, d, 1.0f); });
}

void adamw(benchmark::State& state) {
  const std::int64_t n = state.range(0) * state.range(1);
  const Tensor p = numbers({n}), g = numbers({n}), m = numbers({n}), v = numbers({n}, 0.0f, 1.0f);
  const ops::AdamWStep step{0.9f, 0.1f, 0.99f, 0.01f, 1.0f, 1e-6f, 1.0f, 1e-8f, 1.0f};
  measure(state, n * 28, [&] { ops::adamw_step(stream(), p, g, m, v, step); });
}
void sgd(benchmark::State& state) {
  const std::int64_t n = state.range(0) * state.range(1);
  const Tensor p = numbers({n}), g = numbers({n}), buf = numbers({n});
  measure(state, n * 20, [&] {
    ops::sgd_step(stream(), p, g, buf, {1e-6f, 0.9f, 0.0f, 1.0f, false, false});
  });
}
void chunk_sum_squares(benchmark::State& state) {
  const std::int64_t n = state.range(0) * state.range(1);
  const Tensor x = numbers({n}), out = Tensor::empty({n / 256}, DType::f64, stream());
  measure(state, n * 4, [&] { ops::chunk_sum_squares(stream(), x, out); });
}

// 4096 x 384: an activation of the small GPT (6 MB). 16384 x 1024: 64 MB, more than most caches.
#define SHOAL_BENCH(f) \
  BENCHMARK(f)->Args({4096, 384})->Args({16384, 1024})->UseRealTime()->Unit(benchmark::kMicrosecond)
SHOAL_BENCH(copy_bandwidth);
SHOAL_BENCH(add);
SHOAL_BENCH(residual);
SHOAL_BENCH(residual_dropout);
SHOAL_BENCH(dropout_backward);
SHOAL_BENCH(gelu_forward);
SHOAL_BENCH(gelu_backward);
SHOAL_BENCH(swiglu_forward);
SHOAL_BENCH(swiglu_backward);
SHOAL_BENCH(rotary);
SHOAL_BENCH(layer_norm_forward);
SHOAL_BENCH(layer_norm_backward);
SHOAL_BENCH(rms_norm_forward);
SHOAL_BENCH(rms_norm_backward);
SHOAL_BENCH(embedding_forward);
SHOAL_BENCH(embedding_backward);
SHOAL_BENCH(adamw);
SHOAL_BENCH(sgd);
SHOAL_BENCH(chunk_sum_squares);
BENCHMARK(cross_entropy)->Args({4096, 256})->Args({512, 50257})->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace shoal

BENCHMARK_MAIN();
