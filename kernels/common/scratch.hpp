// Working memory of a kernel's thread, kept from one call to the next.
#pragma once
#include <stdint.h>

namespace shoal::kernels {

// At least n floats, aligned to 64 bytes, the calling thread's own until it asks again. Contents are what the
// last user left. Null when there is no memory.
float* thread_scratch(int64_t n);
// Bytes that all threads together hold now.
int64_t scratch_bytes();

}  // namespace shoal::kernels
