// Walking a row sixteen columns at a time, its tail through the same instructions, and adding rows by the
// tree. Included only by kernels/cpu/*.cpp.
#pragma once
#include "kernels/common/storage.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

// Sixteen columns that are all there, and the first n of sixteen, of any storage. What is missing reads as `fill`.
struct Whole {
  template <class T>
  vf get(const T* p, float = 0.0f) const {
    return load(p);
  }
  template <class T>
  void put(T* p, vf v) const {
    store(p, v);
  }
};
struct Part {
  int64_t n;
  template <class T>
  vf get(const T* p, float fill = 0.0f) const {
    return load_partial(p, n, fill);
  }
  template <class T>
  void put(T* p, vf v) const {
    store_partial(p, v, n);
  }
};

// body(i, Whole or Part) for the columns [begin, end).
template <class Body>
inline void over_columns(int64_t begin, int64_t end, const Body& body) {
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes) body(i, Whole{});
  if (i < end) body(i, Part{end - i});
}

// Row 0 of rows [n, stride] = the tree's sum of all n (shard/tree.hpp) in the columns [begin, end). The rows
// are used up. n >= 1.
inline void tree_add_rows(float* rows, int64_t n, int64_t stride, int64_t begin, int64_t end) {
  for (int64_t step = 1; step < n; step *= 2)
    for (int64_t i = 0; i + step < n; i += 2 * step) {
      float* a = rows + i * stride;
      const float* b = rows + (i + step) * stride;
      over_columns(begin, end,
                   [=](int64_t c, auto part) { part.put(a + c, part.get(a + c) + part.get(b + c)); });
    }
}

}  // namespace
}  // namespace shoal::kernels::SHOAL_ISA
