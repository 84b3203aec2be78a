// bench_attention [THREADS [TYPE]]: GFLOP/s of causal attention, counting what the mask leaves: 2 products forward and 5
// backward of seq (seq + 1) / 2 scores by head_dim; heads are f32 (or bf16, f16). products.md has figures.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "shoal/core/threads.hpp"
#include "shoal/ops/attention.hpp"
#include "timing.hpp"

using namespace shoal;

int main(int argc, char** argv) {
  const Stream s = Stream::create({});
  set_num_threads(argc > 1 ? std::atoi(argv[1]) : 1);
  const DType type = type_named(argc > 2 ? argv[2] : "f32");
  const std::int64_t sizes[][4] = {
      {12, 64, 4, 32}, {8, 256, 4, 64}, {2, 1024, 6, 64}, {2, 1024, 8, 32}, {1, 1024, 8, 128}};
  std::printf("%d thread(s), %s, GFLOP/s\n", num_threads(), std::string(name(type)).c_str());
  std::printf(
      "| samples | seq | heads | head_dim | forward | backward | with dropout "
      "|\n|---|---|---|---|---|---|---|\n");
  for (const auto& [samples, seq, heads, dim] : sizes) {
    const std::int64_t width = heads * dim, tokens = samples * seq;
    const Tensor qkv = numbers(s, {1, tokens, 3 * width}, 1, type),
                 d_qkv = numbers(s, {1, tokens, 3 * width}, 1, type);
    const Tensor o = numbers(s, {1, tokens, width}, 1, type), d_o = numbers(s, {1, tokens, width}, 1, type);
    const Tensor lse = numbers(s, {samples, heads, seq}, 1);
    const ops::AttentionShape shape{.samples = samples,
                                    .seq = seq,
                                    .heads = heads,
                                    .kv_heads = heads,
                                    .head_dim = dim,
                                    .scale = 1 / std::sqrt(static_cast<float>(dim))};
    const auto view = [&](const Tensor& t, std::int64_t column) { return ops::HeadsView{t, column, heads}; };
    const double product = 1e-9 * static_cast<double>(samples * heads * dim * seq * (seq + 1));
    double rates[2][2];
    for (int dropped : {0, 1}) {
      ops::Dropout dropout;
      dropout.p = dropped ? 0.1 : 0.0;
      const int repetitions = std::max(5, static_cast<int>(4 / product));
      rates[dropped][0] = 2 * product / least_seconds(repetitions, [&] {
                            ops::attention_forward(s, shape, view(qkv, 0), view(qkv, width),
                                                   view(qkv, 2 * width), view(o, 0), lse, dropout);
                          });
      rates[dropped][1] =
          5 * product / least_seconds(repetitions, [&] {
            ops::attention_backward(s, shape, view(qkv, 0), view(qkv, width), view(qkv, 2 * width),
                                    view(o, 0), lse, view(d_o, 0), view(d_qkv, 0), view(d_qkv, width),
                                    view(d_qkv, 2 * width), dropout);
          });
    }
    std::printf("| %lld | %lld | %lld | %lld | %.0f | %.0f | %.0f, %.0f |\n", static_cast<long long>(samples),
                static_cast<long long>(seq), static_cast<long long>(heads), static_cast<long long>(dim),
                rates[0][0], rates[0][1], rates[1][0], rates[1][1]);
    std::fflush(stdout);
  }
}
