// Token and position embedding. Bound by memory: forward reads a word's row and writes 4 bytes an element. Backward
// reads dy once and adds each row to its word's and its position's row; tokens must come in ascending order for every
// element, so threads share out columns, not tokens: no thread ever waits, and any cut of the columns gives the same
// bits. Dropout's numbers are drawn again for the columns at hand.
#include "kernels/cpu/embedding.hpp"

#include "kernels/common/columns.hpp"
#include "kernels/common/parallel.hpp"
#include "kernels/common/philox.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

// body(i, part, bits) for the columns [begin, end) of row t; bits points at the random number of column i.
template <class Body>
inline void row_columns(const EmbeddingArgs& a, int64_t t, int64_t begin, int64_t end, const Body& body) {
  if (!a.dropout.active) {
    over_columns(begin, end,
                 [&](int64_t i, auto part) { body(i, part, static_cast<const uint32_t*>(nullptr)); });
    return;
  }
  RandomWindow window;
  for (int64_t c = begin; c < end; c += RandomWindow::capacity) {
    const int64_t stop = end - c < RandomWindow::capacity ? end : c + RandomWindow::capacity;
    const uint32_t* bits =
        window.fill(a.dropout.random, a.dropout.first + static_cast<uint64_t>(t * a.hidden + c), stop - c);
    over_columns(c, stop, [&](int64_t i, auto part) { body(i, part, bits + (i - c)); });
  }
}

// Where the row of token t begins among the words.
SHOAL_INLINE int64_t word_row(const EmbeddingArgs& a, int64_t t) {
  const int64_t id = a.tokens[t];
  return id * a.hidden + (a.gap != 0 ? id / a.piece_rows * a.gap : 0);
}

void clear(float* p, int64_t n) {
  parallel_blocks(n, 65536, n * 4, [=](int64_t begin, int64_t end) {
    memset(p + begin, 0, sizeof(float) * static_cast<size_t>(end - begin));
  });
}

// The sum is rounded to T before dropout reads it.
template <class P, class T>
void forward(const EmbeddingArgs& a, const P* word, const P* position, T* y) {
  const int64_t H = a.hidden;
  const vi threshold = seti(static_cast<int32_t>(a.dropout.threshold));
  const vf factor = set1(a.dropout.scale);
  parallel_blocks(a.rows, H < 4096 ? 4096 / (H > 0 ? H : 1) : 1, a.rows * H * 8,
                  [&](int64_t begin, int64_t end) {
                    for (int64_t t = begin; t < end; ++t) {
                      const P* w = word + word_row(a, t);
                      const P* p = position == nullptr ? nullptr : position + t % a.seq * H;
                      row_columns(a, t, 0, H, [=](int64_t i, auto part, const uint32_t* bits) {
                        vf v = part.get(w + i);
                        if (p != nullptr) v = v + part.get(p + i);
                        if (bits != nullptr) v = drop(rounded<T>(v), load(bits), threshold, factor);
                        part.put(y + t * H + i, v);
                      });
                    }
                  });
}

template <class T>
void backward(const EmbeddingArgs& a, const T* dy, float* dword, float* dposition) {
  const int64_t H = a.hidden;
  const vi threshold = seti(static_cast<int32_t>(a.dropout.threshold));
  const vf factor = set1(a.dropout.scale);
  const int64_t share = (H + max_threads() - 1) / max_threads();
  const int64_t strip = share < 64 ? 64 : (share + lanes - 1) / lanes * lanes;
  parallel_blocks(H, strip, a.rows * H * 12, [&](int64_t begin, int64_t end) {
    for (int64_t t = 0; t < a.rows; ++t) {
      float* w = dword + word_row(a, t);
      float* p = dposition == nullptr ? nullptr : dposition + t % a.seq * H;
      row_columns(a, t, begin, end, [=](int64_t i, auto part, const uint32_t* bits) {
        vf v = part.get(dy + t * H + i);
        if (bits != nullptr) v = drop(v, load(bits), threshold, factor);
        part.put(w + i, part.get(w + i) + v);
        if (p != nullptr) part.put(p + i, part.get(p + i) + v);
      });
    }
  });
}

}  // namespace

void embedding_forward(const EmbeddingArgs& a, Storage parameters, const void* word, const void* position,
                       Storage type, void* y) {
  with_storage(parameters, [&](auto* p) {
    using P = __typeof__(*p);
    with_storage(type, [&](auto* t) {
      forward(a, static_cast<const P*>(word), static_cast<const P*>(position),
              static_cast<__typeof__(*t)*>(y));
    });
  });
}

void embedding_backward(const EmbeddingArgs& a, Storage type, const void* dy, float* dword, float* dposition,
                        int64_t positions, bool accumulate) {
  if (!accumulate) {
    const int64_t piece = a.piece_rows * a.hidden;
    for (int64_t p = 0; p < a.pieces; ++p) clear(dword + p * (piece + a.gap), piece);
    if (dposition != nullptr) clear(dposition, positions * a.hidden);
  }
  with_storage(type, [&](auto* t) { backward(a, static_cast<const __typeof__(*t)*>(dy), dword, dposition); });
}

}  // namespace shoal::kernels::SHOAL_ISA
