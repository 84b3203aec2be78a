// Matrix products as calls of oneDNN's sgemm on tiles that we pack ourselves.
//
// A product of M x K by K x N does 2 M N K operations on 4 (M K + K N + M N) bytes: bound by arithmetic.
// oneDNN's in-place kernel (no operand copied, nothing transposed) runs at 98 % of the FMA peak on tiles of
// 64 x 384 x 384 whose rows are not a power of two apart, but at 30 to 50 % on the operands of training as
// they lie (weight gradients read dY transposed; 1024 floats a row of B fall in one cache set). So a tile is
// copied, transposed where needed, into padded rows; one of A that needs no transposing, and one of B with short
// rows, is used where it lies. A packed tile of B serves a run of row tiles (its copy
// costs 1 to 2 %), one of A a whole n-tile. A unit of work is one tile of C over all of K: threads take runs
// of units, and which thread makes a unit changes nothing in it.
#include "kernels/cpu/matmul.hpp"

#include "kernels/common/gemm_call.hpp"
#include "kernels/common/matmul_plan.hpp"
#include "kernels/common/pack.hpp"
#include "kernels/common/parallel.hpp"
#include "kernels/common/scratch.hpp"

namespace shoal::kernels::SHOAL_ISA {
namespace {

SHOAL_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// What follows the product, on rows x cols of C starting at `at`; every pass over C is in cache here.
SHOAL_INLINE void epilogue(const MatmulArgs& g, int64_t piece, int64_t at, int64_t col, int64_t rows,
                           int64_t cols) {
  if (!g.bias && !g.gelu_out && !g.factor) return;
  const float* bias = g.bias ? g.bias + piece * g.bias_piece + col : nullptr;
  for (int64_t r = 0; r < rows; ++r, at += g.n)
    for (int64_t c = 0; c < cols; c += lanes) {
      const int64_t width = least(lanes, cols - c);
      const bool whole = width == lanes;
      float* y = g.c + at + c;
      vf v = whole ? load(y) : load_partial(y, width);
      if (bias) v = v + (whole ? load(bias + c) : load_partial(bias + c, width));
      if (g.factor) {
        const float* x = g.factor + at + c;
        v = v * (whole ? load(x) : load_partial(x, width));
      }
      if (g.gelu_out) {
        const vf a = vgelu(v);
        v = vgelu_derivative(v);  // shares a's sigmoid
        if (whole)
          store(g.gelu_out + at + c, a);
        else
          store_partial(g.gelu_out + at + c, a, width);
      }
      if (whole)
        store(y, v);
      else
        store_partial(y, v, width);
    }
}

void clear(const MatmulArgs& g, int64_t at, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r, at += g.n)
    for (int64_t c = 0; c < cols; ++c) g.c[at + c] = 0.0f;
}

// Row tiles [first, last) of the n-tile at `col` of one piece.
int run_of_tiles(const MatmulArgs& g, const MatmulPlan& plan, int64_t piece, int64_t col, int64_t first,
                 int64_t last, float* scratch) {
  const float* a = g.a + piece * g.a_piece;
  const float* b = g.b + piece * g.b_piece;
  const int64_t lda = g.transpose_a ? g.m : g.k, ldb = g.transpose_b ? g.k : g.n;
  const int64_t cols = least(plan.n, g.n - col), ldp = cols + matmul_pad;
  const bool direct_a = plan.packed && !g.transpose_a;
  const bool direct_b = plan.packed && !g.transpose_b && ldb <= matmul_direct_row;
  float* tile_b = scratch;
  float* tile_a = scratch + matmul_max_k * (matmul_max_n + matmul_pad);
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
          false, false, g.accumulate || k0 > 0, rows, cols, depth, tile_a, ldk, tile_b, ldp, g.c + at,
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
      if (k0 + depth == g.k) epilogue(g, piece, at, col, rows, cols);
    }
  }
  if (g.k == 0)
    for (int64_t tile = first; tile < last; ++tile) {
      const int64_t row = tile * plan.m, rows = least(plan.m, g.m - row);
      const int64_t at = piece * g.c_piece + row * g.n + col;
      if (!g.accumulate) clear(g, at, rows, cols);
      epilogue(g, piece, at, col, rows, cols);
    }
  return 0;
}

}  // namespace

int matmul(const MatmulArgs& g) {
  if (g.pieces == 0 || g.m == 0 || g.n == 0) return 0;
  const MatmulPlan plan = matmul_plan(g.m, g.n, g.k);
  const int64_t m_tiles = (g.m + plan.m - 1) / plan.m, n_tiles = (g.n + plan.n - 1) / plan.n;
  const int64_t strips = g.pieces * n_tiles;
  int error = 0;
  // Row tiles [part m_tiles / parts, ...) of one n-tile of one piece: they share a packed tile of B.
  const auto run = [&](int64_t part, int64_t parts, int64_t strip) {
    // Inside the region too: where OpenMP gives it one thread (OMP_DYNAMIC, OMP_THREAD_LIMIT), it is not parallel.
    const SingleThread scope;
    float* scratch = plan.packed ? thread_scratch(matmul_scratch) : nullptr;
    int e = plan.packed && !scratch ? -1 : 0;
    if (!e)
      e = run_of_tiles(g, plan, strip / n_tiles, strip % n_tiles * plan.n, m_tiles * part / parts,
                       m_tiles * (part + 1) / parts, scratch);
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
