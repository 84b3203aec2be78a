// Sums over rows and over pieces, in the order of the one tree (docs/numerics.md, R3 and R5). Bound by
// memory: each element is read once for one addition. Columns are vector lanes; a stack of at most
// log2(leaves) + 1 partial sums stays in the first-level cache: when leaf i has been stored, as many pairs
// are complete as i has trailing ones.
#include "kernels/cpu/bias.hpp"

#include "kernels/common/parallel.hpp"
#include "kernels/common/storage.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

constexpr int width = 4;       // vectors a job sums side by side
constexpr int64_t block = 64;  // rows a leaf covers
constexpr int max_levels = 64;

// The tree over `leaves` of `nv` vectors; leaf(i, sums) writes leaf i.
template <class Leaf>
SHOAL_INLINE void sum_tree(int64_t leaves, int nv, vf (*stack)[width], const Leaf& leaf) {
  int depth = 0;
  for (int64_t i = 0; i < leaves; ++i) {
    leaf(i, stack[depth++]);
    const bool last = i + 1 == leaves;  // then the incomplete nodes are passed up, right to left
    for (int64_t bits = i; depth > 1 && (last || (bits & 1)); bits >>= 1, --depth)
      for (int v = 0; v < nv; ++v) stack[depth - 2][v] = stack[depth - 2][v] + stack[depth - 1][v];
  }
}

template <class T>
void sum_rows(const T* dy, float* db, int64_t db_piece, int64_t pieces, int64_t m, int64_t n,
              bool accumulate) {
  const int64_t strip = width * lanes, strips = (n + strip - 1) / strip;
  parallel_for(pieces * strips, pieces * m * n, [=](int64_t job) {
    const int64_t piece = job / strips, begin = job % strips * strip,
                  end = begin + strip < n ? begin + strip : n;
    const T* from = dy + piece * m * n;
    float* to = db + piece * db_piece;
    const int nv = static_cast<int>((end - begin + lanes - 1) / lanes);
    const auto get = [&](const auto* row, int v) {
      const int64_t c = begin + v * lanes;
      return c + lanes <= end ? load(row + c) : load_partial(row + c, end - c);
    };
    vf stack[max_levels][width];
    sum_tree((m + block - 1) / block, nv, stack, [&](int64_t leaf, vf* sums) {
      const int64_t first = leaf * block, last = first + block < m ? first + block : m;
      for (int v = 0; v < nv; ++v) sums[v] = get(from + first * n, v);
      for (int64_t r = first + 1; r < last; ++r)
        for (int v = 0; v < nv; ++v) sums[v] = sums[v] + get(from + r * n, v);
    });
    for (int v = 0; v < nv; ++v) {
      vf sum = m ? stack[0][v] : set1(0.0f);
      if (accumulate) sum = get(to, v) + sum;
      const int64_t c = begin + v * lanes;
      if (c + lanes <= end)
        store(to + c, sum);
      else
        store_partial(to + c, sum, end - c);
    }
  });
}

}  // namespace

void bias_backward(Storage type, const void* dy, float* db, int64_t db_piece, int64_t pieces, int64_t m,
                   int64_t n, bool accumulate) {
  with_storage(type, [=](auto* t) {
    sum_rows(static_cast<const __typeof__(*t)*>(dy), db, db_piece, pieces, m, n, accumulate);
  });
}

void tree_sum(const float* x, Storage type, void* y, int64_t leaves, int64_t n) {
  with_storage(type, [=](auto* t) {
    auto* to = static_cast<__typeof__(t)>(y);
    parallel_blocks(n, 4096, leaves * n, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += lanes) {
        const bool whole = i + lanes <= end;
        vf stack[max_levels][width];
        stack[0][0] = set1(0.0f);
        sum_tree(leaves, 1, stack, [&](int64_t leaf, vf* sum) {
          sum[0] = whole ? load(x + leaf * n + i) : load_partial(x + leaf * n + i, end - i);
        });
        if (whole)
          store(to + i, stack[0][0]);
        else
          store_partial(to + i, stack[0][0], end - i);
      }
    });
  });
}

}  // namespace shoal::kernels::SHOAL_ISA
