// bench_products [THREADS [TYPE]]: GFLOP/s of a linear layer's products at the sizes of small transformers, its operands
// and results f32 (or bf16, f16; weight gradients are f32), beside oneDNN called once on FP32 operands as they lie.
// products.md has figures.
#include <dnnl.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "shoal/core/threads.hpp"
#include "shoal/ops/matmul.hpp"
#include "timing.hpp"

using namespace shoal;

int main(int argc, char** argv) {
  const Stream s = Stream::create({});
  set_num_threads(argc > 1 ? std::atoi(argv[1]) : 1);
  const DType type = type_named(argc > 2 ? argv[2] : "f32");
  const std::int64_t sizes[][3] = {{768, 384, 128},  {768, 512, 128},   {768, 128, 512},   {2048, 768, 256},
                                   {2048, 256, 256}, {2048, 1024, 256}, {2048, 256, 1024}, {2048, 1152, 384},
                                   {2048, 384, 384}, {2048, 1536, 384}, {2048, 384, 1536}, {256, 1024, 1024},
                                   {64, 768, 256}};
  std::printf("%d thread(s), %s, GFLOP/s, oneDNN alone on f32 in brackets\n", num_threads(),
              std::string(name(type)).c_str());
  std::printf(
      "| tokens | out | in | forward | + bias, GELU | dX | dX, GELU' | dW "
      "|\n|---|---|---|---|---|---|---|---|\n");
  for (const auto& [m, n, k] : sizes) {
    const float small = 1 / std::sqrt(static_cast<float>(k));
    const Tensor x = numbers(s, {m, k}, 1, type), w = numbers(s, {n, k}, small, type);
    const Tensor y = numbers(s, {m, n}, 1, type), a = numbers(s, {m, n}, 1, type);
    const Tensor dy = numbers(s, {m, n}, 1, type), dx = numbers(s, {m, k}, 0, type);
    const Tensor bias = numbers(s, {n}, 1, type), dw = numbers(s, {n, k}, 0);
    const Tensor x32 = numbers(s, {m, k}, 1), w32 = numbers(s, {n, k}, small);
    const Tensor dy32 = numbers(s, {m, n}, 1), dx32 = numbers(s, {m, k}, 0);
    const double work = 2e-9 * static_cast<double>(m * n * k);
    const auto rate = [&](const auto& f) {
      return work / least_seconds(std::max(5, static_cast<int>(3 / work)), f);
    };
    const auto sgemm = [&](char ta, char tb, std::int64_t rows, std::int64_t cols, std::int64_t depth,
                           const Tensor& l, const Tensor& r, const Tensor& out, float beta) {
      return rate([&] {
        dnnl_sgemm(ta, tb, rows, cols, depth, 1, l.as<float>(), l.dim(1), r.as<float>(), r.dim(1), beta,
                   out.as<float>(), cols);
      });
    };
    const double forward = rate([&] { ops::linear_forward(s, x, w, Tensor(), y); });
    const double forward_alone = sgemm('N', 'T', m, n, k, x32, w32, dy32, 0);
    const double gelu = rate([&] { ops::linear_gelu_forward(s, x, w, bias, y, a); });
    const double input = rate([&] { ops::linear_backward_input(s, dy, w, dx); });
    const double input_alone = sgemm('N', 'N', m, k, n, dy32, w32, dx32, 0);
    const double input_gelu = rate([&] { ops::linear_gelu_backward_input(s, dy, w, x, dx); });
    const double weight = rate([&] { ops::linear_backward_weight(s, x, dy, dw, true); });
    const double weight_alone = sgemm('T', 'N', n, k, m, dy32, x32, dw, 1);
    std::printf("| %lld | %lld | %lld | %.0f (%.0f) | %.0f | %.0f (%.0f) | %.0f | %.0f (%.0f) |\n",
                static_cast<long long>(m), static_cast<long long>(n), static_cast<long long>(k), forward,
                forward_alone, gelu, input, input_alone, input_gelu, weight, weight_alone);
    std::fflush(stdout);
  }
}
