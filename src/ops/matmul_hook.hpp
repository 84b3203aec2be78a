// For tests: another way to make the single-thread calls that matrix products consist of.
#pragma once
#include <cstdint>

namespace shoal::ops {

enum class Product {
  library,  // oneDNN
  loop,     // each element: acc = C or 0, then acc += a[i, k] * b[k, j] for k upward, rounded at each step
  adversarial,  // a loop whose order over k is drawn from shape, strides, transposes, alignment, threads and
                // seed: only the same call gives the same bits
};

// For the whole process. Not while products are running.
void set_product(Product product, std::uint64_t seed = 0);
Product product();

}  // namespace shoal::ops
