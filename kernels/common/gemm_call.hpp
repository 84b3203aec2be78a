// The one call that every matrix product is made of: C = op(A) op(B) (+ C), row-major, on the calling thread.
#pragma once
#include <stdint.h>

namespace shoal::kernels {

struct GemmCall {
  bool transpose_a, transpose_b, accumulate;
  int64_t m, n, k;
  const float* a;
  int64_t lda;
  const float* b;
  int64_t ldb;
  float* c;
  int64_t ldc;
  bool packed;  // a and b are aligned tiles of our own
};

// Zero, or the library's error code. Inside a parallel region, or in a SingleThread scope.
int gemm_call(const GemmCall& call);

// Calls made outside a parallel region must not start one of their own: sets the number of threads that the
// matrix library would use to one, and back.
class SingleThread {
 public:
  SingleThread();
  ~SingleThread();
  SingleThread(const SingleThread&) = delete;
  SingleThread& operator=(const SingleThread&) = delete;

 private:
  int saved_;
};

}  // namespace shoal::kernels
