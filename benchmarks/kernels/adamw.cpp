// bench_adamw [THREADS] [ROUNDS] [ELEMENTS]: the fused AdamW update beside copies, alternately in one run; the least time
// of each. ELEMENTS per array, in millions of 2^20 (64: five arrays of 256 MiB, well beyond any cache). README.md defines the figures.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shoal/core/threads.hpp"
#include "shoal/ops/dropout.hpp"
#include "shoal/ops/optimizer.hpp"
#include "timing.hpp"

using namespace shoal;

namespace {

// memcpy by as many threads, each a stretch.
void copy_all(const Tensor& from, const Tensor& to, int threads) {
  const std::int64_t n = from.numel();
#pragma omp parallel for num_threads(threads)
  for (int t = 0; t < threads; ++t) {
    const std::int64_t first = n * t / threads, last = n * (t + 1) / threads;
    std::memcpy(to.as<float>() + first, from.as<float>() + first, static_cast<std::size_t>(last - first) * 4);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2, rounds = argc > 2 ? std::atoi(argv[2]) : 20;
  const std::int64_t n = (argc > 3 ? std::atoi(argv[3]) : 64) * (std::int64_t{1} << 20);
  set_num_threads(threads);
  const Stream s = Stream::create({});
  const Tensor p = numbers(s, {n}, 1), g = numbers(s, {n}, 1), m = numbers(s, {n}, 1),
               v = Tensor::zeros({n}, DType::f32, s);
  const Tensor narrow = Tensor::zeros({n}, DType::bf16, s);
  const ops::AdamWStep step{0.9f, 0.1f, 0.99f, 0.01f, 1.0f, 1e-6f, 1.0f, 1e-8f, 1.0f};
  double copy = 1e30, in_place = 1e30, fp32 = 1e30, mixed = 1e30;
  for (int r = 0; r < rounds; ++r) {
    copy = std::min(copy, least_seconds(1, [&] { copy_all(g, m, threads); }));
    in_place = std::min(in_place, least_seconds(1, [&] { ops::scale_(s, g, 1.0f); }));
    fp32 = std::min(fp32, least_seconds(1, [&] { ops::adamw_step(s, p, g, m, v, step); }));
    mixed = std::min(mixed, least_seconds(1, [&] { ops::adamw_step(s, p, g, m, v, step, narrow); }));
  }
  std::printf("%d thread(s), %lld elements; least of %d rounds\n", threads, static_cast<long long>(n),
              rounds);
  std::printf("%-26s %8s %8s %10s %12s\n", "", "ms", "GB/s", "of memcpy", "of in place");
  const auto line = [&](const char* name, double seconds, double bytes) {
    const auto rate = [&](double t, double b) { return 1e-9 * b * static_cast<double>(n) / t; };
    std::printf("%-26s %8.2f %8.1f %8.0f %% %10.0f %%\n", name, 1e3 * seconds, rate(seconds, bytes),
                100 * rate(seconds, bytes) / rate(copy, 8), 100 * rate(seconds, bytes) / rate(in_place, 8));
  };
  line("memcpy", copy, 8);
  line("in place (x = 1 x)", in_place, 8);
  line("AdamW, FP32", fp32, 28);
  line("AdamW, masters and BF16", mixed, 30);
}
