#include "kernels/common/scratch.hpp"

#include <atomic>
#include <cstdlib>

namespace shoal::kernels {
namespace {

std::atomic<int64_t> total{0};

struct Scratch {
  float* p = nullptr;
  int64_t n = 0;
  void release() {
    std::free(p);
    total -= n * static_cast<int64_t>(sizeof(float));
    p = nullptr;
    n = 0;
  }
  ~Scratch() { release(); }
};
thread_local Scratch scratch;

}  // namespace

float* thread_scratch(int64_t n) {
  if (n <= scratch.n) return scratch.p;
  scratch.release();
  n = (n + 1023) / 1024 * 1024;
  scratch.p = static_cast<float*>(std::aligned_alloc(64, static_cast<std::size_t>(n) * sizeof(float)));
  if (!scratch.p) return nullptr;
  scratch.n = n;
  total += n * static_cast<int64_t>(sizeof(float));
  return scratch.p;
}

int64_t scratch_bytes() { return total; }

}  // namespace shoal::kernels
