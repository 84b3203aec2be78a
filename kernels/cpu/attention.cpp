// Causal attention, forward. 4 seq^2 head_dim / 2 operations and seq^2 / 2 exponentials a head on
// 16 seq head_dim bytes: bound by arithmetic, most of it in the two small products; the score tile (64 x 64)
// and its operands stay in the second-level cache. K and V of the head are copied once into padded rows,
// because heads lie seq rows of the whole width apart. A query's running maximum, sum and output (Milakov and
// Gimelshein 2018; Dao et al. 2022) are updated tile by tile, keys upward. Above the diagonal nothing is
// computed, to 16 queries.
#include "kernels/cpu/attention.hpp"

#include "kernels/common/attention_tiles.hpp"
#include "kernels/common/parallel.hpp"
#include "kernels/common/scratch.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

struct ForwardTiles {
  float *k, *v, *q, *o, *s, *words, *rows, *wide;  // wide: where 16-bit results are transposed
  float most[q_tile], sum[q_tile], shrink[q_tile];
};

// Scores of one group of 16 queries to probabilities; statistics updated; the output shrunk to the new
// maximum.
SHOAL_INLINE void softmax_step(const AttentionArgs& g, ForwardTiles& t, int64_t q0, int64_t col, int64_t k0,
                               int64_t keys) {
  float* s = t.s + col;
  const vf lowest = set1(-__builtin_inff());
  vf most = load(t.most + col);
  const vf old = most;
  const int64_t open = visible(k0, keys, q0 + col);  // keys before this are seen by every query of the group
  for (int64_t j = 0; j < open; ++j) most = max(load(s + j * tile_row), most);
  for (int64_t j = open; j < keys; ++j)
    most = max(select(before(q0 + col, k0 + j), lowest, load(s + j * tile_row)), most);
  const vf shrink = vexp(old - most);
  vf sum = load(t.sum + col) * shrink;
  for (int64_t j = 0; j < keys; ++j) {
    vf p = vexp(load(s + j * tile_row) - most);
    if (j >= open) p = select(before(q0 + col, k0 + j), set1(0.0f), p);
    sum = sum + p;
    if (g.dropout.active) p = dropped(g, p, t.words + j * tile_row + col);
    store(s + j * tile_row, p);
  }
  store(t.most + col, most);
  store(t.sum + col, sum);
  if (k0 > 0)
    for (int64_t d = 0; d < g.head_dim; ++d) {
      float* o = t.o + d * tile_row + col;
      store(o, load(o) * shrink);
    }
}

template <class T>
void forward_unit(const AttentionArgs& g, int64_t sample, int64_t head, float* scratch) {
  const int64_t dim = g.head_dim, padded = round16(dim) + 16;
  ForwardTiles t;
  t.k = scratch;
  t.v = t.k + g.seq * padded;
  t.q = t.v + g.seq * padded;
  t.o = t.q + dim * tile_row;
  t.s = t.o + dim * tile_row;
  t.words = t.s + k_tile * tile_row;
  t.rows = t.words + k_tile * tile_row;
  t.wide = t.rows + k_tile * tile_row;
  const int64_t kv_head = head / (g.heads / g.kv_heads);
  copy_padded(head_rows<T>(g.k, g, sample, kv_head), g.k.row, g.seq, dim, 1.0f, t.k, padded);
  copy_padded(head_rows<T>(g.v, g, sample, kv_head), g.v.row, g.seq, dim, 1.0f, t.v, padded);
  for (int64_t q0 = 0; q0 < g.seq; q0 += q_tile) {
    const int64_t queries = least(q_tile, g.seq - q0), columns = round16(queries);
    copy_transposed(head_rows<T>(g.q, g, sample, head) + q0 * g.q.row, g.q.row, queries, dim, g.scale, t.q);
    for (int64_t c = 0; c < q_tile; c += lanes) {
      store(t.most + c, set1(-__builtin_inff()));
      store(t.sum + c, set1(0.0f));
    }
    for (int64_t k0 = 0; k0 < q0 + queries; k0 += k_tile) {
      const int64_t keys = least(k_tile, g.seq - k0);
      if (g.dropout.active) draw(g, sample, head, q0, queries, k0, keys, t.rows, t.words);
      for (int64_t c = 0; c < columns; c += group_columns) {
        const int64_t width = least(group_columns, columns - c);
        const int64_t n = visible(k0, keys, q0 + c + width - 1);
        small_product(n, width, dim, {t.k + k0 * padded, padded, 1}, t.q + c, tile_row, t.s + c, tile_row,
                      false);
        for (int64_t v = 0; v < width; v += lanes) softmax_step(g, t, q0, c + v, k0, n);
        small_product(dim, width, n, {t.v + k0 * padded, 1, padded}, t.s + c, tile_row, t.o + c, tile_row,
                      k0 > 0);
      }
    }
    for (int64_t c = 0; c < columns; c += lanes) {
      const vf sum = load(t.sum + c);
      for (int64_t d = 0; d < dim; ++d) {
        float* o = t.o + d * tile_row + c;
        store(o, load(o) / sum);
      }
    }
    store_transposed(t.o, tile_row, dim, queries, head_rows<T>(g.o, g, sample, head) + q0 * g.o.row, g.o.row,
                     t.wide);
    float* lse = g.lse + (sample * g.heads + head) * g.seq + q0;
    for (int64_t i = 0; i < queries; ++i) lse[i] = t.most[i] + __builtin_logf(t.sum[i]);
  }
}

}  // namespace

int attention_forward(const AttentionArgs& g) {
  const int64_t dim = g.head_dim, padded = round16(dim) + 16,
                floats = 2 * g.seq * padded + (2 * dim + 3 * k_tile) * tile_row +
                         (g.type == Storage::f32 ? 0 : q_tile * padded);
  int error = 0;
  parallel_for(g.samples * g.heads, g.samples * g.heads * g.seq * g.seq * dim, [&](int64_t unit) {
    float* scratch = thread_scratch(floats);
    if (scratch)
      with_storage(
          g.type, [&](auto* t) { forward_unit<__typeof__(*t)>(g, unit / g.heads, unit % g.heads, scratch); });
    else
      __atomic_store_n(&error, -1, __ATOMIC_RELAXED);
  });
  return error;
}

// One query: bound by reading the cache of K and V once.
void attention_decode(const float* q, const float* k, const float* v, float* o, int64_t length, int64_t heads,
                      int64_t kv_heads, int64_t dim, float scale) {
  parallel_for(heads, heads * length * dim, [=](int64_t head) {
    const int64_t row = kv_heads * dim, at = head / (heads / kv_heads) * dim;
    const auto get = [=](const float* p, int64_t c) {
      return c + lanes <= dim ? load(p + c) : load_partial(p + c, dim - c);
    };
    float* out = o + head * dim;
    for (int64_t c = 0; c < dim; ++c) out[c] = 0.0f;
    float most = -__builtin_inff(), sum = 0.0f;
    for (int64_t j = 0; j < length; ++j) {
      vf dot = set1(0.0f);
      for (int64_t c = 0; c < dim; c += lanes)
        dot = fma(get(q + head * dim, c), get(k + j * row + at, c), dot);
      const float score = sum_lanes(dot) * scale, now = score > most ? score : most;
      float weights[lanes];
      store(weights, vexp(set1(score) - set1(now)));
      const float weight = weights[0];
      store(weights, vexp(set1(most) - set1(now)));
      const float shrink = weights[0];
      sum = sum * shrink + weight;
      for (int64_t c = 0; c < dim; c += lanes) {
        const vf x = fma(set1(weight), get(v + j * row + at, c), get(out, c) * set1(shrink));
        if (c + lanes <= dim)
          store(out + c, x);
        else
          store_partial(out + c, x, dim - c);
      }
      most = now;
    }
    for (int64_t c = 0; c < dim; ++c) out[c] = out[c] / sum;
  });
}

}  // namespace shoal::kernels::SHOAL_ISA
