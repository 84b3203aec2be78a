// What the two passes of attention share: where a tile's rows lie, the copies of it, and the dropout of its
// probabilities. Queries are vector lanes: a tile of scores is [keys][queries], so that the softmax needs no
// sum across lanes and the statistics of a query are one lane of a vector. Included only by
// kernels/cpu/attention*.cpp; everything has internal linkage.
#pragma once
#include "kernels/common/pack.hpp"
#include "kernels/common/philox.hpp"
#include "kernels/common/small_product.hpp"
#include "kernels/cpu/attention.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

constexpr int64_t q_tile = 64, k_tile = 64;
constexpr int64_t tile_row = q_tile + 16;  // floats a row of a tile takes: rows never share a cache set

SHOAL_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
SHOAL_INLINE int64_t round16(int64_t n) { return (n + 15) / 16 * 16; }

template <class T>
SHOAL_INLINE T* head_rows(const HeadsArgs& v, const AttentionArgs& g, int64_t sample, int64_t head) {
  return static_cast<T*>(v.base) + head / v.heads_per_piece * v.piece + sample * g.seq * v.row + v.column +
         head % v.heads_per_piece * g.head_dim;
}

// dst[r][0 .. round16(cols)) = src[r] * factor, zero beyond cols.
template <class T>
SHOAL_INLINE void copy_padded(const T* src, int64_t lds, int64_t rows, int64_t cols, float factor, float* dst,
                              int64_t ldd) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; c += lanes) {
      const T* s = src + r * lds + c;
      store(dst + r * ldd + c, (c + lanes <= cols ? load(s) : load_partial(s, cols - c)) * set1(factor));
    }
}

// dst[c][r] = src[r][c] * factor for r < rows, zero for rows <= r < q_tile.
template <class T>
SHOAL_INLINE void copy_transposed(const T* src, int64_t lds, int64_t rows, int64_t cols, float factor,
                                  float* dst) {
  if constexpr (sizeof(T) == sizeof(float))
    pack_transposed(src, lds, rows, cols, dst, tile_row);
  else
    pack_transposed_as<T>(src, lds, rows, cols, dst, tile_row);
  for (int64_t c = 0; c < cols; ++c) {
    float* d = dst + c * tile_row;
    for (int64_t r = rows; r < q_tile; ++r) d[r] = 0.0f;
    for (int64_t r = 0; r < q_tile; r += lanes) store(d + r, load(d + r) * set1(factor));
  }
}

// dst[r][c] = src[r][c], rounded once to T.
template <class T>
SHOAL_INLINE void store_rows(const float* src, int64_t lds, int64_t rows, int64_t cols, T* dst, int64_t ldd) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; c += lanes) {
      const vf x = load(src + r * lds + c);
      if (c + lanes <= cols)
        store(dst + r * ldd + c, x);
      else
        store_partial(dst + r * ldd + c, x, cols - c);
    }
}

// dst[c][r] = src[r][c], rounded once to T; `wide` is room for [cols][rows] floats, its rows a multiple of 16 apart.
template <class T>
SHOAL_INLINE void store_transposed(const float* src, int64_t lds, int64_t rows, int64_t cols, T* dst,
                                   int64_t ldd, float* wide) {
  if constexpr (sizeof(T) == sizeof(float)) {
    pack_transposed(src, lds, rows, cols, dst, ldd);
  } else {
    const int64_t ldw = round16(rows) + 16;
    pack_transposed(src, lds, rows, cols, wide, ldw);
    store_rows(wide, ldw, cols, rows, dst, ldd);
  }
}

// Lanes whose query q0 + lane comes before the key: masked.
SHOAL_INLINE vmask before(int64_t q0, int64_t key) {
  float index[lanes];
  for (int i = 0; i < lanes; ++i) index[i] = static_cast<float>(i);
  return less(load(index), set1(static_cast<float>(key - q0)));
}

// How many keys of the tile at k0 the queries up to q_last may see.
SHOAL_INLINE int64_t visible(int64_t k0, int64_t keys, int64_t q_last) {
  const int64_t n = q_last - k0 + 1;
  return n < 0 ? 0 : least(n, keys);
}

// words[key][query] of the tile at (q0, k0), of `queries` by `keys`; `rows` is room for one such tile.
SHOAL_INLINE void draw(const AttentionArgs& g, int64_t sample, int64_t head, int64_t q0, int64_t queries,
                       int64_t k0, int64_t keys, float* rows, float* words) {
  const uint64_t unit = static_cast<uint64_t>(g.first_sample + sample) * static_cast<uint64_t>(g.all_heads) +
                        static_cast<uint64_t>(g.first_head + head);
  const uint64_t seq = static_cast<uint64_t>(g.seq);
  RandomWindow window;
  for (int64_t q = 0; q < queries; ++q) {
    const uint64_t first = (unit * seq + static_cast<uint64_t>(q0 + q)) * seq + static_cast<uint64_t>(k0);
    const int64_t n = visible(k0, keys, q0 + q);
    if (n > 0)
      memcpy(rows + q * tile_row, window.fill(g.dropout.random, first, n), static_cast<size_t>(n) * 4);
    for (int64_t k = n; k < keys; ++k) rows[q * tile_row + k] = 0.0f;
  }
  for (int64_t q = queries; q < q_tile; ++q)
    for (int64_t k = 0; k < keys; ++k) rows[q * tile_row + k] = 0.0f;
  pack_transposed(rows, tile_row, q_tile, keys, words, tile_row);
}

SHOAL_INLINE vf dropped(const AttentionArgs& g, vf x, const float* words) {
  uint32_t bits[lanes];
  memcpy(bits, words, sizeof bits);
  return drop(x, load(bits), seti(static_cast<int32_t>(g.dropout.threshold)), set1(g.dropout.scale));
}

}  // namespace
}  // namespace shoal::kernels::SHOAL_ISA
