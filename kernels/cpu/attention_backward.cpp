// Causal attention, backward. Five small products a tile, from the saved log-sum-exp:
//   P = exp(scale Q K^T - lse)   dP = dO V^T   dS = P (dP - sum(dO O))   dV += P^T dO   dK += dS^T Q   dQ +=
//   dS K
// 10 seq^2 head_dim / 2 operations a head: bound by arithmetic. One unit of work is a sample's key/value head
// with its group of query heads, so no two threads add to one place. Queries go upward, and within a query
// tile keys go upward: dK and dV are sums over queries upward, dQ over keys upward (docs/numerics.md, R6).
#include "kernels/common/attention_tiles.hpp"
#include "kernels/common/parallel.hpp"
#include "kernels/common/scratch.hpp"
#include "kernels/cpu/attention.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

struct BackwardTiles {
  float *k, *v;                  // the head's, rows of `padded`
  float *q, *d_o;                // [queries][dim], rows of `padded`; q scaled
  float *qt, *d_ot, *dqt;        // [dim][queries]
  float *p, *ds, *words, *rows;  // [keys][queries]
  float* wide;                   // [queries][dim], where a 16-bit dQ is transposed
  float lse[q_tile], delta[q_tile];
};

int64_t tile_floats(const AttentionArgs& g, int64_t padded) {
  return 2 * g.seq * padded + 3 * q_tile * padded + (3 * g.head_dim + 4 * k_tile) * tile_row;
}

// P and dP of one group of 16 queries to (dropped) P and dS, zero for keys [n, keys).
SHOAL_INLINE void softmax_gradient(const AttentionArgs& g, BackwardTiles& t, int64_t q0, int64_t col,
                                   int64_t k0, int64_t n, int64_t keys) {
  const vf lse = load(t.lse + col), delta = load(t.delta + col);
  const int64_t open = visible(k0, n, q0 + col);
  for (int64_t j = 0; j < n; ++j) {
    float *pp = t.p + j * tile_row + col, *dp = t.ds + j * tile_row + col;
    vf p = vexp(load(pp) - lse), d = load(dp);
    if (j >= open) p = select(before(q0 + col, k0 + j), set1(0.0f), p);
    if (g.dropout.active) {
      const float* words = t.words + j * tile_row + col;
      d = dropped(g, d, words);
      store(pp, dropped(g, p, words));
    } else {
      store(pp, p);
    }
    store(dp, p * (d - delta));
  }
  for (int64_t j = n; j < keys; ++j) {
    store(t.p + j * tile_row + col, set1(0.0f));
    store(t.ds + j * tile_row + col, set1(0.0f));
  }
}

// dK (of which t.ds and t.q are the factors) or dV (t.p, t.d_o): rows of keys, queries from the diagonal
// upward.
SHOAL_INLINE void add_key_gradient(const float* tile, const float* rows, int64_t padded, int64_t first,
                                   int64_t keys, int64_t queries, int64_t dim16, float* sum) {
  for (int64_t j = 0; j < keys; j += group_rows) {
    const int64_t from = first + j > 0 ? first + j : 0;  // the first query that sees key j
    if (from >= queries) break;
    small_product(least(group_rows, keys - j), dim16, queries - from,
                  {tile + j * tile_row + from, tile_row, 1}, rows + from * padded, padded, sum + j * padded,
                  padded, true);
  }
}

// One query head; dk and dv [seq][padded] are added to.
template <class T>
void backward_head(const AttentionArgs& g, BackwardTiles& t, int64_t sample, int64_t head, int64_t padded,
                   float* dk, float* dv) {
  const int64_t dim = g.head_dim, dim16 = round16(dim);
  for (int64_t q0 = 0; q0 < g.seq; q0 += q_tile) {
    const int64_t queries = least(q_tile, g.seq - q0), columns = round16(queries);
    const T* q = head_rows<T>(g.q, g, sample, head) + q0 * g.q.row;
    const T* o = head_rows<T>(g.o, g, sample, head) + q0 * g.o.row;
    const T* d_o = head_rows<T>(g.d_o, g, sample, head) + q0 * g.d_o.row;
    const float* lse = g.lse + (sample * g.heads + head) * g.seq + q0;
    copy_padded(q, g.q.row, queries, dim, g.scale, t.q, padded);
    copy_padded(d_o, g.d_o.row, queries, dim, 1.0f, t.d_o, padded);
    copy_transposed(q, g.q.row, queries, dim, g.scale, t.qt);
    copy_transposed(d_o, g.d_o.row, queries, dim, 1.0f, t.d_ot);
    for (int64_t i = 0; i < q_tile; ++i) {
      t.lse[i] = i < queries ? lse[i] : 0.0f;
      vf sum = set1(0.0f);
      for (int64_t c = 0; c < dim && i < queries; c += lanes)
        sum = fma(load(t.d_o + i * padded + c),
                  c + lanes <= dim ? load(o + i * g.o.row + c) : load_partial(o + i * g.o.row + c, dim - c),
                  sum);
      t.delta[i] = sum_lanes(sum);
    }
    for (int64_t k0 = 0; k0 < q0 + queries; k0 += k_tile) {
      const int64_t keys = least(k_tile, g.seq - k0);
      const Left k{t.k + k0 * padded, padded, 1}, v{t.v + k0 * padded, padded, 1}, kt{k.p, 1, padded};
      if (g.dropout.active) draw(g, sample, head, q0, queries, k0, keys, t.rows, t.words);
      for (int64_t c = 0; c < columns; c += group_columns) {
        const int64_t width = least(group_columns, columns - c);
        const int64_t n = visible(k0, keys, q0 + c + width - 1);
        small_product(n, width, dim, k, t.qt + c, tile_row, t.p + c, tile_row, false);
        small_product(n, width, dim, v, t.d_ot + c, tile_row, t.ds + c, tile_row, false);
        for (int64_t i = 0; i < width; i += lanes) softmax_gradient(g, t, q0, c + i, k0, n, keys);
        small_product(dim, width, n, kt, t.ds + c, tile_row, t.dqt + c, tile_row, k0 > 0);
      }
      add_key_gradient(t.p, t.d_o, padded, k0 - q0, keys, queries, dim16, dv + k0 * padded);
      add_key_gradient(t.ds, t.q, padded, k0 - q0, keys, queries, dim16, dk + k0 * padded);
    }
    for (int64_t d = 0; d < dim; ++d)
      for (int64_t c = 0; c < columns; c += lanes) {
        float* x = t.dqt + d * tile_row + c;
        store(x, load(x) * set1(g.scale));
      }
    store_transposed(t.dqt, tile_row, dim, queries, head_rows<T>(g.dq, g, sample, head) + q0 * g.dq.row,
                     g.dq.row, t.wide);
  }
}

template <class T>
void backward_unit(const AttentionArgs& g, int64_t sample, int64_t kv_head, int64_t runs_most,
                   float* scratch) {
  const int64_t dim = g.head_dim, padded = round16(dim) + 16, group = g.heads / g.kv_heads;
  const int64_t one = g.seq * padded;  // dK or dV of one run
  BackwardTiles t;
  t.k = scratch;
  t.v = t.k + one;
  t.q = t.v + one;
  t.d_o = t.q + q_tile * padded;
  t.wide = t.d_o + q_tile * padded;
  t.qt = t.wide + q_tile * padded;
  t.d_ot = t.qt + dim * tile_row;
  t.dqt = t.d_ot + dim * tile_row;
  t.p = t.dqt + dim * tile_row;
  t.ds = t.p + k_tile * tile_row;
  t.words = t.ds + k_tile * tile_row;
  t.rows = t.words + k_tile * tile_row;
  float* sums = t.rows + k_tile * tile_row;  // [runs][dK, dV][seq][padded]
  copy_padded(head_rows<T>(g.k, g, sample, kv_head), g.k.row, g.seq, dim, 1.0f, t.k, padded);
  copy_padded(head_rows<T>(g.v, g, sample, kv_head), g.v.row, g.seq, dim, 1.0f, t.v, padded);
  int64_t runs = 0;  // of heads in one query piece
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    if (head == kv_head * group || head % g.q.heads_per_piece == 0) {
      if (runs < runs_most) memset(sums + 2 * one * runs, 0, static_cast<size_t>(2 * one) * sizeof(float));
      ++runs;
    }
    float* dk = sums + 2 * one * (runs - 1);
    backward_head<T>(g, t, sample, head, padded, dk, dk + one);
  }
  for (int64_t step = 1; step < runs; step *= 2)  // the tree
    for (int64_t i = 0; i + step < runs; i += 2 * step)
      for (int64_t x = 0; x < 2 * one; x += lanes) {
        float* to = sums + 2 * one * i + x;
        store(to, load(to) + load(to + 2 * one * step));
      }
  store_rows(sums, padded, g.seq, dim, head_rows<T>(g.dk, g, sample, kv_head), g.dk.row);
  store_rows(sums + one, padded, g.seq, dim, head_rows<T>(g.dv, g, sample, kv_head), g.dv.row);
}

}  // namespace

int attention_backward(const AttentionArgs& g) {
  const int64_t padded = round16(g.head_dim) + 16, group = g.heads / g.kv_heads;
  const int64_t runs =
      g.q.heads_per_piece % group == 0 ? 1 : least(group, (group - 2) / g.q.heads_per_piece + 2);
  const int64_t floats = tile_floats(g, padded) + runs * 2 * g.seq * padded;
  int error = 0;
  parallel_for(g.samples * g.kv_heads, g.samples * g.heads * g.seq * g.seq * g.head_dim, [&](int64_t unit) {
    float* scratch = thread_scratch(floats);
    if (scratch)
      with_storage(g.type, [&](auto* t) {
        backward_unit<__typeof__(*t)>(g, unit / g.kv_heads, unit % g.kv_heads, runs, scratch);
      });
    else
      __atomic_store_n(&error, -1, __ATOMIC_RELAXED);
  });
  return error;
}

}  // namespace shoal::kernels::SHOAL_ISA
