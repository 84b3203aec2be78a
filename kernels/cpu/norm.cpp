// Layer norm and RMS norm. Bound by memory: in FP32 forward reads 4 and writes 4 bytes an element, backward reads 8 (12
// with the residual gradient) and writes 4, in 16 bits half of it; a row is in the first cache when its second and
// third passes read it. A row's sums run in 16 lanes, which alone would wait for the adder's latency, so a few rows go
// side by side: each row's bits are as if it were alone. In the backward pass a block of 64 rows adds its part of
// dweight and dbias into two rows that stay in the first cache; the blocks' rows are then added by the tree.
#include "kernels/cpu/norm.hpp"

#include "kernels/common/columns.hpp"
#include "kernels/common/parallel.hpp"
#include "kernels/common/widen.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

// The arguments with their types.
template <class T>
struct Forward {
  const T* x;
  const float *weight, *bias;
  float eps;
  T* y;
  float *mean, *rstd;
  int64_t rows, hidden;
};
template <class T>
struct Backward {
  const T *dy, *x, *dres;
  const float *weight, *mean, *rstd;
  T* dx;
  float *dweight, *dbias, *partial;
  int64_t rows, hidden, shards;
  bool accumulate;
};

template <bool centred, int R, class T>
inline void forward_rows(const Forward<T>& a, int64_t row) {
  const int64_t H = a.hidden;
  const float count = static_cast<float>(H > 0 ? H : 1);
  const T* x[R];
  float mean[R] = {}, rstd[R];
  vf sum[R];
  for (int r = 0; r < R; ++r) {
    x[r] = a.x + (row + r) * H;
    sum[r] = set1(0.0f);
  }
  if constexpr (centred) {
    over_columns(0, H, [&](int64_t i, auto part) {
      for (int r = 0; r < R; ++r) sum[r] = sum[r] + part.get(x[r] + i);
    });
    for (int r = 0; r < R; ++r) {
      a.mean[row + r] = mean[r] = sum_lanes(sum[r]) / count;
      sum[r] = set1(0.0f);
    }
  }
  over_columns(0, H, [&](int64_t i, auto part) {
    for (int r = 0; r < R; ++r) {
      vf d = part.get(x[r] + i, mean[r]);
      if constexpr (centred) d = d - set1(mean[r]);
      sum[r] = fma(d, d, sum[r]);
    }
  });
  for (int r = 0; r < R; ++r)
    a.rstd[row + r] = rstd[r] = 1.0f / __builtin_sqrtf(sum_lanes(sum[r]) / count + a.eps);
  over_columns(0, H, [&](int64_t i, auto part) {
    const vf w = part.get(a.weight + i);
    vf b = set1(0.0f);
    if constexpr (centred) b = part.get(a.bias + i);
    for (int r = 0; r < R; ++r) {
      vf v = part.get(x[r] + i);
      if constexpr (centred)
        v = fma((v - set1(mean[r])) * set1(rstd[r]), w, b);
      else
        v = (v * set1(rstd[r])) * w;
      part.put(a.y + (row + r) * H + i, v);
    }
  });
}

template <bool centred, class T>
void forward_typed(const Forward<T>& a) {
  const int64_t block = a.hidden < 2048 ? 8 : 4;
  parallel_blocks(a.rows, block, a.rows * a.hidden * 8, [&](int64_t begin, int64_t end) {
    int64_t row = begin;
    for (; row + 4 <= end; row += 4) forward_rows<centred, 4>(a, row);
    for (; row < end; ++row) forward_rows<centred, 1>(a, row);
  });
}

// Writes dx of R rows and adds their part of dweight and dbias to dw and db.
template <bool centred, bool residual, int R, class T>
inline void backward_rows(const Backward<T>& a, int64_t row, float* dw, float* db) {
  const int64_t H = a.hidden;
  const float count = static_cast<float>(H > 0 ? H : 1);
  const T *dy[R], *x[R];
  float mean[R] = {}, rstd[R], mean_g[R] = {}, minus_mean_gx[R];
  vf g_sum[R], gx_sum[R];
  for (int r = 0; r < R; ++r) {
    dy[r] = a.dy + (row + r) * H;
    x[r] = a.x + (row + r) * H;
    if constexpr (centred) mean[r] = a.mean[row + r];
    rstd[r] = a.rstd[row + r];
    g_sum[r] = gx_sum[r] = set1(0.0f);
  }
  // The normalised x; `part` reads 0 beyond the row, and so does g below: nothing is added there.
  auto normal = [&](int r, int64_t i, auto part) {
    const vf v = part.get(x[r] + i);
    if constexpr (centred) return (v - set1(mean[r])) * set1(rstd[r]);
    return v * set1(rstd[r]);
  };
  over_columns(0, H, [&](int64_t i, auto part) {
    const vf w = part.get(a.weight + i);
    for (int r = 0; r < R; ++r) {
      const vf g = part.get(dy[r] + i) * w;
      if constexpr (centred) g_sum[r] = g_sum[r] + g;
      gx_sum[r] = fma(g, normal(r, i, part), gx_sum[r]);
    }
  });
  for (int r = 0; r < R; ++r) {
    if constexpr (centred) mean_g[r] = sum_lanes(g_sum[r]) / count;
    minus_mean_gx[r] = -(sum_lanes(gx_sum[r]) / count);
  }
  over_columns(0, H, [&](int64_t i, auto part) {
    const vf w = part.get(a.weight + i);
    vf dw_sum = part.get(dw + i), db_sum = set1(0.0f);
    if constexpr (centred) db_sum = part.get(db + i);
    for (int r = 0; r < R; ++r) {
      const vf d = part.get(dy[r] + i), n = normal(r, i, part);
      vf v = d * w;
      if constexpr (centred) v = v - set1(mean_g[r]);
      v = fma(n, set1(minus_mean_gx[r]), v);
      const int64_t at = (row + r) * H + i;
      if constexpr (residual)
        v = fma(v, set1(rstd[r]), part.get(a.dres + at));
      else
        v = v * set1(rstd[r]);
      part.put(a.dx + at, v);
      dw_sum = fma(d, n, dw_sum);
      if constexpr (centred) db_sum = db_sum + d;
    }
    part.put(dw + i, dw_sum);
    if constexpr (centred) part.put(db + i, db_sum);
  });
}

template <bool centred, bool residual, class T>
void block_backward(const Backward<T>& a, int64_t begin, int64_t end, float* partial) {
  float* dw = partial;
  float* db = partial + a.hidden;  // not touched by RMS norm
  memset(partial, 0, sizeof(float) * static_cast<size_t>(a.hidden) * (centred ? 2 : 1));
  int64_t row = begin;
  for (; row + 2 <= end; row += 2) backward_rows<centred, residual, 2>(a, row, dw, db);
  for (; row < end; ++row) backward_rows<centred, residual, 1>(a, row, dw, db);
}

void finish(const float* sum, float* out, int64_t begin, int64_t end, bool accumulate) {
  over_columns(begin, end, [=](int64_t i, auto part) {
    part.put(out + i, accumulate ? part.get(out + i) + part.get(sum + i) : part.get(sum + i));
  });
}

template <bool centred, class T>
void backward_typed(const Backward<T>& a) {
  if (a.hidden == 0) return;
  const int64_t H = a.hidden, width = (centred ? 2 : 1) * H;
  const int64_t shard_rows = a.rows / a.shards, blocks = norm_blocks(shard_rows);
  parallel_for(a.shards * blocks, a.rows * H * 16, [&](int64_t b) {
    const int64_t first = b / blocks * shard_rows, last = first + shard_rows;
    const int64_t begin = first + b % blocks * norm_block_rows;
    const int64_t end = begin + norm_block_rows < last ? begin + norm_block_rows : last;
    if (a.dres != nullptr)
      block_backward<centred, true>(a, begin, end, a.partial + b * width);
    else
      block_backward<centred, false>(a, begin, end, a.partial + b * width);
  });
  if (blocks == 0) {
    if (a.accumulate) return;
    memset(a.dweight, 0, sizeof(float) * static_cast<size_t>(a.shards * H));
    if constexpr (centred) memset(a.dbias, 0, sizeof(float) * static_cast<size_t>(a.shards * H));
    return;
  }
  constexpr int64_t strip = 64;
  const int64_t strips = (H + strip - 1) / strip;
  parallel_for(a.shards * strips, a.shards * blocks * width * 4, [&](int64_t i) {
    const int64_t s = i / strips, begin = i % strips * strip, end = begin + strip < H ? begin + strip : H;
    float* rows = a.partial + s * blocks * width;
    tree_add_rows(rows, blocks, width, begin, end);
    finish(rows, a.dweight + s * H, begin, end, a.accumulate);
    if constexpr (centred) {
      tree_add_rows(rows + H, blocks, width, begin, end);
      finish(rows + H, a.dbias + s * H, begin, end, a.accumulate);
    }
  });
}

template <bool centred>
int forward(const NormForward& a) {
  float* room = a.parameters == Storage::f32 ? nullptr : thread_scratch(2 * a.hidden);
  if (a.parameters != Storage::f32 && room == nullptr) return -1;
  const float* weight = widened(a.weight, a.parameters, a.hidden, room);
  const float* bias = widened(a.bias, a.parameters, a.hidden, room ? room + a.hidden : nullptr);
  with_storage(a.type, [&](auto* type) {
    using T = __typeof__(*type);
    forward_typed<centred, T>({static_cast<const T*>(a.x), weight, bias, a.eps, static_cast<T*>(a.y), a.mean,
                               a.rstd, a.rows, a.hidden});
  });
  return 0;
}

template <bool centred>
int backward(const NormBackward& a) {
  float* room = a.parameters == Storage::f32 ? nullptr : thread_scratch(a.hidden);
  if (a.parameters != Storage::f32 && room == nullptr) return -1;
  const float* weight = widened(a.weight, a.parameters, a.hidden, room);
  with_storage(a.type, [&](auto* type) {
    using T = __typeof__(*type);
    backward_typed<centred, T>({static_cast<const T*>(a.dy), static_cast<const T*>(a.x),
                                static_cast<const T*>(a.dres), weight, a.mean, a.rstd, static_cast<T*>(a.dx),
                                a.dweight, a.dbias, a.partial, a.rows, a.hidden, a.shards, a.accumulate});
  });
  return 0;
}

}  // namespace

int layer_norm_forward(const NormForward& args) { return forward<true>(args); }
int layer_norm_backward(const NormBackward& args) { return backward<true>(args); }
int rms_norm_forward(const NormForward& args) { return forward<false>(args); }
int rms_norm_backward(const NormBackward& args) { return backward<false>(args); }

}  // namespace shoal::kernels::SHOAL_ISA
