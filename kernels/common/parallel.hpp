// Sharing work among the threads of an operation. Which thread does what never changes a result: kernels make
// each output in one iteration. Included only by kernels/cpu/*.cpp.
#pragma once
#include <stdint.h>
#ifdef _OPENMP
#include <omp.h>
#endif

namespace shoal::kernels::SHOAL_ISA {
namespace {

#ifdef _OPENMP
constexpr int most_shares = 256;  // threads beyond it only take what others leave

// The share of one thread, on a cache line of its own.
struct alignas(64) Share {
  int64_t next, end;
};

// body(i) for i in [0, n), each thread its own run of iterations first: operations cut activations by tokens, so a
// thread finds what it wrote in the operation before in its own cache. Then what slower threads have left.
template <class Body>
inline void share_out(int64_t n, const Body& body) {
  const int64_t threads = omp_get_max_threads();
  const int64_t count = threads < most_shares ? threads : most_shares;
  Share shares[most_shares];
  for (int64_t t = 0; t < count; ++t) shares[t] = {n * t / count, n * (t + 1) / count};
#pragma omp parallel
  {
    const int64_t own = omp_get_thread_num() % count;
    for (int64_t s = 0; s < count; ++s) {
      Share& share = shares[(own + s) % count];
      for (int64_t i; (i = __atomic_fetch_add(&share.next, 1, __ATOMIC_RELAXED)) < share.end;) body(i);
    }
  }
}
#endif

// body(i) for i in [0, n), on several threads when there are any and `work` (an estimate of the bytes or
// operations of all iterations together) makes it worth waking them.
template <class Body>
inline void parallel_for(int64_t n, int64_t work, const Body& body) {
#ifdef _OPENMP
  if (n > 1 && work > 65536 && omp_get_max_threads() > 1 && !omp_in_parallel()) {
    share_out(n, body);
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
