#include "shoal/core/threads.hpp"

#include <fmt/format.h>
#include <sched.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include <thread>

#include "shoal/core/error.hpp"

namespace shoal {
namespace {
thread_local int threads = 0;  // 0: not set
}

int hardware_threads() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

void set_num_threads(int n) {
  if (n < 1) throw ConfigError(fmt::format("{} threads: at least 1", n));
  if (n == threads) return;
  threads = n;
#ifdef _OPENMP
  omp_set_num_threads(n);
#endif
}

int num_threads() {
#ifdef _OPENMP
  return threads ? threads : omp_get_max_threads();
#else
  return threads ? threads : 1;
#endif
}

}  // namespace shoal
