// Matrix products as calls of oneDNN's sgemm on tiles that we pack ourselves.
//
// A product of M x K by K x N does 2 M N K operations on 4 (M K + K N + M N) bytes: bound by arithmetic.
// oneDNN's in-place kernel (no operand copied, nothing transposed) runs at 98 % of the FMA peak on tiles of
// 64 x 384 x 384 whose rows are not a power of two apart, but at 30 to 50 % on the operands of training as
// they lie (weight gradients read dY transposed; 1024 floats a row of B fall in one cache set). So a tile is
// copied, transposed where needed, into padded rows; one of A that needs no transposing, and one of B with short
// rows, is used where it lies. A packed tile of B serves a run of row tiles (its copy
// costs 1 to 2 %), one of A a whole n-tile. A unit of work is one tile of C over all of K: threads take runs
// of units, and which thread makes a unit changes nothing in it. Operands of 16 bits are widened as they are packed, which
// reads half the bytes: their products are these same calls on FP32 tiles.
#include "kernels/cpu/matmul.hpp"

#include "kernels/common/gemm_call.hpp"
#include "kernels/common/matmul_plan.hpp"
#include "kernels/common/pack.hpp"
#include "kernels/common/parallel.hpp"
#include "kernels/common/widen.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

SHOAL_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// What follows the product, on rows x cols of C, whose sums are in `tile` (rows ldt apart; it may be C itself); every pass
// over them is in cache here. `at` is where they begin in C, bias where the columns' biases do (or null).
template <class C>
SHOAL_INLINE void epilogue(const MatmulArgs& g, const float* tile, int64_t ldt, int64_t at, int64_t rows,
                           int64_t cols, const float* bias) {
  if (sizeof(C) == sizeof(float) && !bias && !g.gelu_out && !g.factor) return;  // it is C itself
  C* out = static_cast<C*>(g.c) + at;
  C* gelu = g.gelu_out ? static_cast<C*>(g.gelu_out) + at : nullptr;
  const C* factor = g.factor ? static_cast<const C*>(g.factor) + at : nullptr;
  for (int64_t r = 0; r < rows; ++r) {
    const float* sum = tile + r * ldt;
    const int64_t row = r * g.n;
    over_columns(0, cols, [&](int64_t c, auto part) {
      vf v = part.get(sum + c);
      if (bias) v = v + part.get(bias + c);
      if (factor) v = v * part.get(factor + row + c);
      if (gelu) {
        const vf a = vgelu(v);
        v = vgelu_derivative(v);  // shares a's sigmoid
        part.put(gelu + row + c, a);
      }
      part.put(out + row + c, v);
    });
  }
}

// The biases of columns [col, col + cols) of a piece as FP32, in `room` where they are narrower.
const float* bias_of(const MatmulArgs& g, int64_t piece, int64_t col, int64_t cols, float* room) {
  if (g.bias == nullptr) return nullptr;
  const int64_t at = piece * g.bias_piece + col;
  const int64_t bytes = g.bias_type == Storage::f32 ? 4 : 2;
  return widened(static_cast<const char*>(g.bias) + at * bytes, g.bias_type, cols, room);
}

void clear(float* c, int64_t ldc, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < cols; ++i) c[r * ldc + i] = 0.0f;
}

// Row tiles [first, last) of the n-tile at `col` of one piece: FP32 throughout.
int run_of_tiles(const MatmulArgs& g, const MatmulPlan& plan, int64_t piece, int64_t col, int64_t first,
                 int64_t last, float* scratch) {
  const float* a = static_cast<const float*>(g.a) + piece * g.a_piece;
  const float* b = static_cast<const float*>(g.b) + piece * g.b_piece;
  float* out = static_cast<float*>(g.c);
  const int64_t lda = g.transpose_a ? g.m : g.k, ldb = g.transpose_b ? g.k : g.n;
  const int64_t cols = least(plan.n, g.n - col), ldp = cols + matmul_pad;
  const bool direct_a = plan.packed && !g.transpose_a;
  const bool direct_b = plan.packed && !g.transpose_b && ldb <= matmul_direct_row;
  float* tile_b = scratch;
  float* tile_a = scratch + matmul_max_k * (matmul_max_n + matmul_pad);
  float room[matmul_max_n];
  const float* bias = bias_of(g, piece, col, cols, room);
  for (int64_t k0 = 0; k0 < g.k; k0 += plan.k) {
    const int64_t depth = least(plan.k, g.k - k0), ldk = depth + matmul_pad;
    if (plan.packed && !direct_b) {
      if (g.transpose_b)
        pack_transposed(b + col * ldb + k0, ldb, cols, depth, tile_b, ldp);
      else
        pack_rows(b + k0 * ldb + col, ldb, depth, cols, tile_b, ldp);
    }
    for (int64_t tile = first; tile < last; ++tile) {
      const int64_t row = tile * plan.m, rows = least(plan.m, g.m - row);
      const int64_t at = piece * g.c_piece + row * g.n + col;
      GemmCall call{
          false, false, g.accumulate || k0 > 0, rows, cols, depth, tile_a, ldk, tile_b, ldp, out + at,
          g.n,   true};
      if (direct_b) {
        call.b = b + k0 * ldb + col;
        call.ldb = ldb;
        call.packed = false;
      }
      if (!plan.packed) {
        call.transpose_a = g.transpose_a;
        call.transpose_b = g.transpose_b;
        call.a = g.transpose_a ? a + k0 * lda + row : a + row * lda + k0;
        call.b = g.transpose_b ? b + col * ldb + k0 : b + k0 * ldb + col;
        call.lda = lda;
        call.ldb = ldb;
        call.packed = false;
      } else if (direct_a) {
        call.a = a + row * lda + k0;
        call.lda = lda;
        call.packed = false;
      } else if (g.transpose_a) {
        pack_transposed(a + k0 * lda + row, lda, depth, rows, tile_a, ldk);
      } else {
        pack_rows(a + row * lda + k0, lda, rows, depth, tile_a, ldk);
      }
      if (const int error = gemm_call(call)) return error;
      if (k0 + depth == g.k) epilogue<float>(g, out + at, g.n, at, rows, cols, bias);
    }
  }
  if (g.k == 0)
    for (int64_t tile = first; tile < last; ++tile) {
      const int64_t row = tile * plan.m, rows = least(plan.m, g.m - row);
      const int64_t at = piece * g.c_piece + row * g.n + col;
      if (!g.accumulate) clear(out + at, g.n, rows, cols);
      epilogue<float>(g, out + at, g.n, at, rows, cols, bias);
    }
  return 0;
}

// A tile of an operand as FP32, rounded to the product's type; rows x cols as they are stored.
template <class T>
void pack_typed(Storage product, const T* src, int64_t lds, int64_t rows, int64_t cols, bool transposed,
                float* dst, int64_t ldd) {
  const auto pack = [&](auto* r) {
    using R = __typeof__(*r);
    transposed ? pack_transposed_as<R>(src, lds, rows, cols, dst, ldd)
               : pack_rows_as<R>(src, lds, rows, cols, dst, ldd);
  };
  if constexpr (sizeof(T) == sizeof(float))
    with_storage(product, pack);
  else
    pack(static_cast<float*>(nullptr));  // not wider than the product's type: exact
}

struct Operand {
  const void* base;
  Storage type, product;
  int64_t ld;
  bool transposed;
  // Stored rows [row, row + rows) x columns [col, col + cols).
  void pack(int64_t row, int64_t rows, int64_t col, int64_t cols, float* dst, int64_t ldd) const {
    with_storage(type, [&](auto* t) {
      pack_typed(product, static_cast<const __typeof__(*t)*>(base) + row * ld + col, ld, rows, cols,
                 transposed, dst, ldd);
    });
  }
};

// The same where an operand or the result is of 16 bits. A result of 16 bits is summed in FP32 rows in scratch; they
// are few enough to stay in the second-level cache where K fits one tile, and few megabytes else.
template <class C>
int run_of_half_tiles(const MatmulArgs& g, const MatmulPlan& plan, int64_t piece, int64_t col, int64_t first,
                      int64_t last, float* scratch) {
  constexpr bool direct_c = sizeof(C) == sizeof(float);
  const auto bytes = [](Storage s) { return s == Storage::f32 ? int64_t{4} : int64_t{2}; };
  const Operand a{static_cast<const char*>(g.a) + piece * g.a_piece * bytes(g.a_type), g.a_type, g.product,
                  g.transpose_a ? g.m : g.k, g.transpose_a};
  const Operand b{static_cast<const char*>(g.b) + piece * g.b_piece * bytes(g.b_type), g.b_type, g.product,
                  g.transpose_b ? g.k : g.n, g.transpose_b};
  const int64_t cols = least(plan.n, g.n - col), ldp = cols + matmul_pad;
  float* tile_b = scratch;
  float* tile_a = tile_b + matmul_max_k * (matmul_max_n + matmul_pad);
  float* sums = tile_a + matmul_max_m * (matmul_max_k + matmul_pad);
  float room[matmul_max_n];
  const float* bias = bias_of(g, piece, col, cols, room);
  const int64_t group = direct_c ? last - first : matmul_group_rows / plan.m;
  for (int64_t begin = first; begin < last; begin += group) {
    const int64_t end = least(begin + group, last);
    for (int64_t k0 = 0; k0 < g.k || (k0 == 0 && g.k == 0); k0 += plan.k) {
      const int64_t depth = least(plan.k, g.k - k0), ldk = depth + matmul_pad;
      if (g.transpose_b)
        b.pack(col, cols, k0, depth, tile_b, ldp);
      else
        b.pack(k0, depth, col, cols, tile_b, ldp);
      for (int64_t tile = begin; tile < end; ++tile) {
        const int64_t row = tile * plan.m, rows = least(plan.m, g.m - row);
        const int64_t at = piece * g.c_piece + row * g.n + col;
        float* c = direct_c ? static_cast<float*>(g.c) + at
                            : sums + (plan.k < g.k ? (tile - begin) * plan.m * ldp : 0);
        const int64_t ldc = direct_c ? g.n : ldp;
        if (g.transpose_a)
          a.pack(k0, depth, row, rows, tile_a, ldk);
        else
          a.pack(row, rows, k0, depth, tile_a, ldk);
        if (g.k == 0) {
          if (!g.accumulate) clear(c, ldc, rows, cols);
        } else if (const int error = gemm_call({false, false, (direct_c && g.accumulate) || k0 > 0, rows,
                                                cols, depth, tile_a, ldk, tile_b, ldp, c, ldc, true})) {
          return error;
        }
        if (k0 + depth == g.k) epilogue<C>(g, c, ldc, at, rows, cols, bias);
      }
    }
  }
  return 0;
}

}  // namespace

int matmul(const MatmulArgs& g) {
  if (g.pieces == 0 || g.m == 0 || g.n == 0) return 0;
  const bool half = g.a_type != Storage::f32 || g.b_type != Storage::f32 || g.c_type != Storage::f32 ||
                    g.product != Storage::f32;
  const MatmulPlan plan = half ? matmul_half_plan(g.m, g.n, g.k) : matmul_plan(g.m, g.n, g.k);
  const int64_t floats = matmul_scratch + (g.c_type != Storage::f32 ? matmul_group_scratch : 0);
  const int64_t m_tiles = (g.m + plan.m - 1) / plan.m, n_tiles = (g.n + plan.n - 1) / plan.n;
  const int64_t strips = g.pieces * n_tiles;
  int error = 0;
  // Row tiles [part m_tiles / parts, ...) of one n-tile of one piece: they share a packed tile of B.
  const auto run = [&](int64_t part, int64_t parts, int64_t strip) {
    // Inside the region too: where OpenMP gives it one thread (OMP_DYNAMIC, OMP_THREAD_LIMIT), it is not parallel.
    const SingleThread scope;
    float* scratch = plan.packed ? thread_scratch(floats) : nullptr;
    int e = plan.packed && !scratch ? -1 : 0;
    const int64_t piece = strip / n_tiles, col = strip % n_tiles * plan.n, first = m_tiles * part / parts,
                  last = m_tiles * (part + 1) / parts;
    if (!e && !half) e = run_of_tiles(g, plan, piece, col, first, last, scratch);
    if (!e && half)
      e = with_storage(g.c_type, [&](auto* t) {
        return run_of_half_tiles<__typeof__(*t)>(g, plan, piece, col, first, last, scratch);
      });
    if (e) __atomic_store_n(&error, e, __ATOMIC_RELAXED);
  };
#ifdef _OPENMP
  const int64_t threads = omp_in_parallel() ? 1 : omp_get_max_threads();
  if (threads > 1 && strips * m_tiles > 1 && g.pieces * g.m * g.n * (g.k + 1) > (1 << 18)) {
    // At least two runs a thread, so that one can finish what a slower one has not begun; rows outermost, so that a
    // thread keeps to its rows from one operation to the next (parallel.hpp).
    const int64_t parts = least(m_tiles, strips > 1 ? threads : 2 * threads);
    share_out(parts * strips, [&](int64_t i) { run(i / strips, parts, i % strips); });
    return error;
  }
#endif
  for (int64_t strip = 0; strip < strips; ++strip) run(0, 1, strip);
  return error;
}

}  // namespace shoal::kernels::SHOAL_ISA
