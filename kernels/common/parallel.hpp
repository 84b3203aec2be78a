// Sharing work among the threads of an operation. Which thread does what never changes a result: kernels make
// each output in one iteration. Included only by kernels/cpu/*.cpp.
#pragma once
#include <stdint.h>
#ifdef _OPENMP
#include <omp.h>
#endif

namespace shoal::kernels::SHOAL_ISA {
namespace {

// body(i) for i in [0, n), on several threads when there are any and `work` (an estimate of the bytes or
// operations of all iterations together) makes it worth waking them.
template <class Body>
inline void parallel_for(int64_t n, int64_t work, const Body& body) {
#ifdef _OPENMP
  if (n > 1 && work > 65536 && omp_get_max_threads() > 1 && !omp_in_parallel()) {
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < n; ++i) body(i);
    return;
  }
#else
  (void)work;
#endif
  for (int64_t i = 0; i < n; ++i) body(i);
}

// How many threads parallel_for would use at most. It may shape how work is cut only where the cut cannot change bits.
inline int64_t max_threads() {
#ifdef _OPENMP
  return omp_in_parallel() ? 1 : omp_get_max_threads();
#else
  return 1;
#endif
}

// body(begin, end) over [0, n) in fixed blocks of `grain` elements.
template <class Body>
inline void parallel_blocks(int64_t n, int64_t grain, int64_t work, const Body& body) {
  parallel_for((n + grain - 1) / grain, work, [&](int64_t b) {
    const int64_t begin = b * grain;
    body(begin, begin + grain < n ? begin + grain : n);
  });
}

}  // namespace
}  // namespace shoal::kernels::SHOAL_ISA
