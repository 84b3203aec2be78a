// Softmax cross-entropy. Bound by arithmetic at small vocabularies (one exponential a logit, some 20 operations for 8
// bytes) and by memory at large ones: a row (200 KB for 50257 tokens) stays in the second cache while it is read for
// the maximum, for the exponentials and for the gradient, so memory sees each logit once in and once out.
// Sums: blocks of 1024 columns of a piece in 16 lanes, the blocks of a piece by the tree, the pieces by the tree.
#include "kernels/cpu/cross_entropy.hpp"

#include "kernels/common/columns.hpp"
#include "kernels/common/parallel.hpp"
#include "kernels/common/scratch.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

constexpr int64_t block = 1024;

// Sums leaves given one after another by the tree, with one slot a level.
template <class T>
class TreeSum {
 public:
  void push(T leaf) {
    int level = 0;
    for (uint64_t n = count_; n & 1; n >>= 1) leaf = node_[level++] + leaf;
    node_[level] = leaf;
    ++count_;
  }
  // The nodes that are left, the smallest (rightmost) first; 0 when there was no leaf.
  T sum() const {
    T total = 0;
    bool any = false;
    int level = 0;
    for (uint64_t n = count_; n != 0; n >>= 1, ++level) {
      if ((n & 1) == 0) continue;
      total = any ? node_[level] + total : node_[level];
      any = true;
    }
    return total;
  }

 private:
  T node_[64];
  uint64_t count_ = 0;
};

// Columns of piece p that are not padding.
inline int64_t valid_columns(const CrossEntropyArgs& a, int64_t p) {
  const int64_t left = a.vocab - p * a.width;
  return left < 0 ? 0 : left < a.width ? left : a.width;
}

template <class T>
float row_max(const CrossEntropyArgs& a, const T* logits, int64_t row) {
  const vf lowest = set1(-__builtin_inff());
  // Four, so that comparisons do not wait for one another; a maximum does not depend on the order.
  vf m[4] = {lowest, lowest, lowest, lowest};
  for (int64_t p = 0; p < a.pieces; ++p) {
    const T* x = logits + (p * a.rows + row) * a.width;
    const int64_t n = valid_columns(a, p);
    int64_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes)
      for (int k = 0; k < 4; ++k) m[k] = max(load(x + i + k * lanes), m[k]);
    over_columns(i, n, [&](int64_t c, auto part) { m[0] = max(part.get(x + c, -__builtin_inff()), m[0]); });
  }
  return max_lanes(max(max(m[0], m[1]), max(m[2], m[3])));
}

// The sum of e^(x - top) over columns [0, n); writes the exponentials to e where e is not null.
template <bool keep, class T>
float piece_sum(const T* x, float* e, int64_t n, float top) {
  TreeSum<float> tree;
  for (int64_t begin = 0; begin < n; begin += block) {
    const int64_t end = begin + block < n ? begin + block : n;
    vf sum = set1(0.0f);
    // Beyond the end x reads -inf, whose exponential is 0.
    over_columns(begin, end, [&](int64_t i, auto part) {
      const vf v = vexp(part.get(x + i, -__builtin_inff()) - set1(top));
      if constexpr (keep) part.put(e + i, v);
      sum = sum + v;
    });
    tree.push(sum_lanes(sum));
  }
  return tree.sum();
}

inline float scalar(float x) { return x; }
template <class T>
inline float scalar(T x) {
  float v[lanes];
  store(v, load_partial(&x, 1));
  return v[0];
}

// exponentials: room for [pieces, width] FP32 numbers where the gradient is of 16 bits, else not used: FP32 gradients
// keep them where they will be.
template <bool gradient, class T>
void row_loss(const CrossEntropyArgs& a, const T* logits, T* dlogits, int64_t row, float* exponentials) {
  constexpr bool in_place = sizeof(T) == sizeof(float);
  const int32_t target = a.targets[row];
  if (target == a.ignored) {
    a.loss[row] = 0.0f;
    if constexpr (gradient)
      for (int64_t p = 0; p < a.pieces; ++p)
        memset(dlogits + (p * a.rows + row) * a.width, 0, sizeof(T) * static_cast<size_t>(a.width));
    return;
  }
  const auto kept = [&](int64_t p) {  // of piece p
    if constexpr (!gradient)
      return static_cast<float*>(nullptr);
    else if constexpr (in_place)
      return dlogits + (p * a.rows + row) * a.width;
    else
      return exponentials + p * a.width;
  };
  const int64_t piece = target / a.width, column = target % a.width;
  const float target_logit =
      scalar(logits[(piece * a.rows + row) * a.width + column]);  // dlogits may be logits
  const float top = row_max(a, logits, row);
  TreeSum<float> tree;
  for (int64_t p = 0; p < a.pieces; ++p)
    tree.push(piece_sum<gradient>(logits + (p * a.rows + row) * a.width, kept(p), valid_columns(a, p), top));
  const float sum = tree.sum();
  a.loss[row] = __builtin_logf(sum) + (top - target_logit);
  if constexpr (gradient) {
    const vf factor = set1(a.scale / sum);
    for (int64_t p = 0; p < a.pieces; ++p) {
      T* d = dlogits + (p * a.rows + row) * a.width;
      float* e = kept(p);
      const int64_t n = valid_columns(a, p);
      if constexpr (!in_place)
        if (p == piece) e[column] = e[column] * (a.scale / sum) - a.scale;  // FP32, rounded once below
      over_columns(0, n, [=](int64_t i, auto part) { part.put(d + i, part.get(e + i) * factor); });
      if constexpr (in_place)
        if (p == piece) d[column] = d[column] - a.scale;
      if constexpr (!in_place)
        if (p == piece) {
          T one[lanes];
          store(one, set1(e[column]));
          d[column] = one[0];
        }
      memset(d + n, 0, sizeof(T) * static_cast<size_t>(a.width - n));
    }
  }
}

template <class T>
int rows_loss(const CrossEntropyArgs& a) {
  const T* logits = static_cast<const T*>(a.logits);
  T* dlogits = static_cast<T*>(a.dlogits);
  const int64_t columns = a.pieces * a.width;
  const int64_t rows_a_block = columns < 8192 ? 8192 / (columns > 0 ? columns : 1) : 1;
  int error = 0;
  parallel_blocks(a.rows, rows_a_block, a.rows * columns * 16, [&](int64_t begin, int64_t end) {
    float* room = nullptr;
    if (sizeof(T) != sizeof(float) && dlogits != nullptr && (room = thread_scratch(columns)) == nullptr) {
      __atomic_store_n(&error, -1, __ATOMIC_RELAXED);
      return;
    }
    for (int64_t row = begin; row < end; ++row)
      dlogits != nullptr ? row_loss<true>(a, logits, dlogits, row, room)
                         : row_loss<false>(a, logits, dlogits, row, room);
  });
  return error;
}

}  // namespace

int cross_entropy(const CrossEntropyArgs& a) {
  return with_storage(a.type, [&](auto* t) { return rows_loss<__typeof__(*t)>(a); });
}

double sum_f64(const float* x, int64_t n) {
  TreeSum<double> tree;
  for (int64_t begin = 0; begin < n; begin += 64) {
    const int64_t end = begin + 64 < n ? begin + 64 : n;
    double sum = static_cast<double>(x[begin]);
    for (int64_t i = begin + 1; i < end; ++i) sum = sum + static_cast<double>(x[i]);
    tree.push(sum);
  }
  return tree.sum();
}

}  // namespace shoal::kernels::SHOAL_ISA
