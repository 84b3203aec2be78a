// Linear layers, their gradients, and the sums over rows and pieces.
#include <numbers>

#include "shoal/core/error.hpp"
#include "shoal/ops/matmul.hpp"
#include "support/expect_message.hpp"
#include "support/reference.hpp"

namespace shoal {
namespace {

using namespace test;
using I = std::int64_t;
using V = std::vector<double>;

const double c0 = std::sqrt(2.0 / std::numbers::pi);
double gelu(double x) { return 0.5 * x * (1.0 + std::tanh(c0 * (x + 0.044715 * x * x * x))); }
double gelu_slope(double x) {
  const double t = std::tanh(c0 * (x + 0.044715 * x * x * x));
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * c0 * (1.0 + 3 * 0.044715 * x * x);
}

// One piece in FP64.
V forward(const V& x, const V& w, const V& bias, I m, I n, I k) {
  V y(m * n);
  for (I i = 0; i < m; ++i)
    for (I j = 0; j < n; ++j) {
      double s = bias.empty() ? 0.0 : bias[j];
      for (I l = 0; l < k; ++l) s += x[i * k + l] * w[j * k + l];
      y[i * n + j] = s;
    }
  return y;
}
V backward_input(const V& dy, const V& w, I m, I n, I k) {
  V dx(m * k, 0.0);
  for (I i = 0; i < m; ++i)
    for (I j = 0; j < n; ++j)
      for (I l = 0; l < k; ++l) dx[i * k + l] += dy[i * n + j] * w[j * k + l];
  return dx;
}
V backward_weight(const V& dy, const V& x, I m, I n, I k) {
  V dw(n * k, 0.0);
  for (I i = 0; i < m; ++i)
    for (I j = 0; j < n; ++j)
      for (I l = 0; l < k; ++l) dw[j * k + l] += dy[i * n + j] * x[i * k + l];
  return dw;
}
V column_sums(const V& dy, I m, I n) {
  V db(n, 0.0);
  for (I i = 0; i < m; ++i)
    for (I j = 0; j < n; ++j) db[j] += dy[i * n + j];
  return db;
}

class Linear : public testing::Test {
 protected:
  Random random;
  const Stream s = Stream::create({});
};

TEST_F(Linear, ForwardAndBackwardAgreeWithFp64) {
  for (I m : odd_sizes())
    for (I n : odd_sizes())
      for (I k : odd_sizes()) {
        if (m * n * k > 257 * 257 * 33) continue;
        const Tensor x = random_tensor(s, {m, k}, random), w = random_tensor(s, {n, k}, random, 0.3);
        const Tensor bias = random_tensor(s, {n}, random), dy = random_tensor(s, {m, n}, random);
        const std::string at = Shape{m, n, k}.str();
        const Tensor y = filled(s, {m, n}, 9), a = filled(s, {m, n}, 9);
        ops::linear_forward(s, x, w, Tensor(), y);
        EXPECT_TRUE(close(y, forward(values(x), values(w), {}, m, n, k), {x, w})) << at;
        ops::linear_forward(s, x, w, bias, y);
        const V y64 = forward(values(x), values(w), values(bias), m, n, k);
        EXPECT_TRUE(close(y, y64, {x, w, bias})) << at;
        ops::linear_gelu_forward(s, x, w, bias, y, a);
        V a64 = y64, slope64 = y64;
        for (double& v : a64) v = gelu(v);
        for (double& v : slope64) v = gelu_slope(v);
        EXPECT_TRUE(close(a, a64, {x, w, bias})) << at;
        EXPECT_TRUE(close(y, slope64, {x, w, bias})) << at;

        const Tensor dx = filled(s, {m, k}, 2), dw = filled(s, {n, k}, 2), db = filled(s, {n}, 2);
        V dx64 = backward_input(values(dy), values(w), m, n, k);
        V dw64 = backward_weight(values(dy), values(x), m, n, k), db64 = column_sums(values(dy), m, n);
        ops::linear_backward_input(s, dy, w, dx);
        ops::linear_backward_weight(s, x, dy, dw, false);
        ops::bias_backward(s, dy, db, false);
        EXPECT_TRUE(close(dx, dx64, {dy, w})) << at;
        EXPECT_TRUE(close(dw, dw64, {dy, x})) << at;
        EXPECT_TRUE(close(db, db64, {dy})) << at;
        ops::linear_backward_input(s, dy, w, dx, true);
        ops::linear_backward_weight(s, x, dy, dw, true);
        ops::bias_backward(s, dy, db, true);
        for (double& v : dx64) v *= 2;
        for (double& v : dw64) v *= 2;
        for (double& v : db64) v *= 2;
        EXPECT_TRUE(close(dx, dx64, {dy, w})) << at;
        EXPECT_TRUE(close(dw, dw64, {dy, x})) << at;
        EXPECT_TRUE(close(db, db64, {dy})) << at;

        const Tensor u = random_tensor(s, {m, k}, random);
        for (double& v : dx64) v /= 2;
        const V u64 = values(u);
        for (std::size_t i = 0; i < dx64.size(); ++i) dx64[i] *= u64[i];
        ops::linear_gelu_backward_input(s, dy, w, u, dx);
        EXPECT_TRUE(close(dx, dx64, {dy, w, u})) << at;
      }
}

// Each piece of a call on several gives the bits of a call on it alone; shared operands are not copied.
TEST_F(Linear, PiecesAreIndependentProducts) {
  const I p = 3, m = 70, n = 33, k = 20;
  const Tensor x = random_tensor(s, {m, k}, random), w = random_tensor(s, {p, n, k}, random);
  const Tensor bias = random_tensor(s, {p, n}, random), dy = random_tensor(s, {p, m, n}, random);
  const Tensor y = filled(s, {p, m, n}, 0), a = clone(s, y), dw = filled(s, {p, n, k}, 0),
               db = filled(s, {p, n}, 0);
  const Tensor dx = filled(s, {p, m, k}, 0), dx_gelu = clone(s, dx), u = random_tensor(s, {p, m, k}, random);
  ops::linear_gelu_forward(s, x, w, bias, y, a);
  ops::linear_backward_weight(s, x, dy, dw, false);
  ops::linear_backward_input(s, dy, w, dx);
  ops::linear_gelu_backward_input(s, dy, w, u, dx_gelu);
  ops::bias_backward(s, dy, db, false);
  for (I i = 0; i < p; ++i) {
    const Tensor y1 = filled(s, {m, n}, 0), a1 = clone(s, y1), dw1 = filled(s, {n, k}, 0),
                 db1 = filled(s, {n}, 0);
    const Tensor dx1 = filled(s, {m, k}, 0);
    ops::linear_gelu_forward(s, x, w.select(i), bias.select(i), y1, a1);
    EXPECT_TRUE(same_bits(y.select(i), y1));
    EXPECT_TRUE(same_bits(a.select(i), a1));
    ops::linear_backward_weight(s, x, dy.select(i), dw1, false);
    EXPECT_TRUE(same_bits(dw.select(i), dw1));
    ops::bias_backward(s, dy.select(i), db1, false);
    EXPECT_TRUE(same_bits(db.select(i), db1));
    ops::linear_backward_input(s, dy.select(i), w.select(i), dx1);
    EXPECT_TRUE(same_bits(dx.select(i), dx1));
    ops::linear_gelu_backward_input(s, dy.select(i), w.select(i), u.select(i), dx1);
    EXPECT_TRUE(same_bits(dx_gelu.select(i), dx1));
  }
}

// Blocks of 64 rows, each upward, then the tree: written out with plain floats.
TEST_F(Linear, BiasGradientSumsInTheTreesOrder) {
  for (I m : {1, 64, 65, 200, 64 * 7 + 3}) {
    const I n = 37;
    const Tensor dy = random_tensor(s, {m, n}, random), db = filled(s, {n}, 0), want = filled(s, {n}, 0);
    ops::bias_backward(s, dy, db, false);
    for (I j = 0; j < n; ++j) {
      std::vector<float> level;
      for (I b = 0; b < m; b += 64) {
        float sum = dy.as<float>()[b * n + j];
        for (I i = b + 1; i < std::min(m, b + 64); ++i) sum += dy.as<float>()[i * n + j];
        level.push_back(sum);
      }
      while (level.size() > 1) {
        std::vector<float> up;
        for (std::size_t i = 0; i < level.size(); i += 2)
          up.push_back(i + 1 < level.size() ? level[i] + level[i + 1] : level[i]);
        level = up;
      }
      want.as<float>()[j] = level[0];
    }
    EXPECT_TRUE(same_bits(db, want)) << m;
  }
}

TEST_F(Linear, TreeSumPairsNeighboursFirstAndMayOverwriteItsFirstLeaf) {
  for (I p : {1, 2, 3, 5, 6, 7, 8, 11}) {
    const Tensor x = random_tensor(s, {p, 3, 11}, random), y = filled(s, {3, 11}, 0), want = clone(s, y);
    for (I e = 0; e < 33; ++e) {
      std::vector<float> level;
      for (I i = 0; i < p; ++i) level.push_back(x.as<float>()[i * 33 + e]);
      while (level.size() > 1) {
        std::vector<float> up;
        for (std::size_t i = 0; i < level.size(); i += 2)
          up.push_back(i + 1 < level.size() ? level[i] + level[i + 1] : level[i]);
        level = up;
      }
      want.as<float>()[e] = level[0];
    }
    ops::tree_sum(s, x, y);
    EXPECT_TRUE(same_bits(y, want)) << p;
    ops::tree_sum(s, x, x.select(0));
    EXPECT_TRUE(same_bits(x.select(0), want)) << p;
  }
}

TEST_F(Linear, BitsDoNotDependOnTheThreadCount) {
  const I m = 300, n = 400, k = 200;
  const Tensor x = random_tensor(s, {m, k}, random), w = random_tensor(s, {n, k}, random);
  const Tensor bias = random_tensor(s, {n}, random), dy = random_tensor(s, {m, n}, random);
  std::vector<std::vector<Tensor>> runs;
  const int before = num_threads();
  for (int threads : {1, 2, 3}) {
    set_num_threads(threads);
    const Tensor y = filled(s, {m, n}, 0), a = clone(s, y), dx = filled(s, {m, k}, 0), db = filled(s, {n}, 0);
    const Tensor t = filled(s, {k}, 0);
    ops::linear_gelu_forward(s, x, w, bias, y, a);
    ops::linear_gelu_backward_input(s, dy, w, x, dx);
    ops::bias_backward(s, dy, db, false);
    ops::tree_sum(s, x, t);
    runs.push_back({y, a, dx, db, t});
  }
  set_num_threads(before);
  for (std::size_t r = 1; r < runs.size(); ++r)
    for (std::size_t i = 0; i < runs[r].size(); ++i)
      EXPECT_TRUE(same_bits(runs[r][i], runs[0][i])) << r << " " << i;
}

// Pieces of parameters and of their gradients may lie apart: the same bits, and the gaps stay as they are.
TEST_F(Linear, PiecesThatLieApartGiveTheSameBits) {
  const I p = 3, m = 70, n = 33, k = 20;
  const auto apart = [&](const Tensor& t, float gap) {
    const I stride = t.leading_stride() + 13;
    const Tensor r = filled(s, {p * stride}, gap).view(t.shape(), stride);
    copy(s, t, r);
    return r;
  };
  const auto expect_gaps = [&](const Tensor& t, float gap) {
    for (I i = 0; i + 1 < p; ++i)
      for (I j = t.leading_stride() - 13; j < t.leading_stride(); ++j)
        ASSERT_EQ(t.base<float>()[i * t.leading_stride() + j], gap);
  };
  const Tensor x = random_tensor(s, {m, k}, random), w = random_tensor(s, {p, n, k}, random);
  const Tensor bias = random_tensor(s, {p, n}, random), dy = random_tensor(s, {p, m, n}, random);
  const Tensor u = random_tensor(s, {p, m, k}, random);
  std::vector<std::vector<Tensor>> runs;
  for (bool gaps : {false, true}) {
    const Tensor weight = gaps ? apart(w, NAN) : w, b = gaps ? apart(bias, NAN) : bias;
    const Tensor y = filled(s, {p, m, n}, 0), a = clone(s, y), dx = filled(s, {p, m, k}, 0);
    const Tensor dx_gelu = clone(s, dx), zero = filled(s, {p, n, k}, 0), dw = gaps ? apart(zero, 5) : zero;
    const Tensor none = filled(s, {p, n}, 0), db = gaps ? apart(none, 6) : none;
    ops::linear_gelu_forward(s, x, weight, b, y, a);
    ops::linear_backward_input(s, dy, weight, dx);
    ops::linear_gelu_backward_input(s, dy, weight, u, dx_gelu);
    for (bool accumulate : {false, true}) {
      ops::linear_backward_weight(s, x, dy, dw, accumulate);
      ops::bias_backward(s, dy, db, accumulate);
    }
    if (gaps) {
      expect_gaps(dw, 5);
      expect_gaps(db, 6);
    }
    const Tensor dw_dense = filled(s, dw.shape(), 0), db_dense = filled(s, db.shape(), 0);
    copy(s, dw, dw_dense);
    copy(s, db, db_dense);
    runs.push_back({y, a, dx, dx_gelu, dw_dense, db_dense});
  }
  for (std::size_t i = 0; i < runs[0].size(); ++i) EXPECT_TRUE(same_bits(runs[1][i], runs[0][i])) << i;

  const Tensor y = filled(s, {p, m, n}, 0);
  EXPECT_MESSAGE(ops::bias_backward(s, apart(dy, 0), bias, false), ShapeError, "without gaps");
  EXPECT_MESSAGE(
      ops::linear_gelu_forward(s, x, w, bias, y, apart(y, 0)), ShapeError,
      "linear_gelu_forward: a: expected f32[3, 70, 33] without gaps, got f32[3, 70, 33] (stride 2323)");
  EXPECT_MESSAGE(ops::linear_gelu_forward(s, x, w, bias, apart(y, 0), y), ShapeError, "without gaps");
  EXPECT_MESSAGE(ops::tree_sum(s, apart(y, 0), y.select(0)), ShapeError, "without gaps");
}

TEST_F(Linear, ErrorsNameTheShapes) {
  const Tensor x = filled(s, {4, 3}, 1), w = filled(s, {5, 3}, 1), y = filled(s, {4, 5}, 0);
  EXPECT_MESSAGE(ops::linear_forward(s, x, filled(s, {5, 2}, 1), Tensor(), y), ShapeError,
                 "linear_forward: w: expected f32[5, 3], got f32[5, 2]");
  EXPECT_MESSAGE(ops::linear_forward(s, x, w, filled(s, {4}, 0), y), ShapeError,
                 "linear_forward: bias: expected f32[5], got f32[4]");
  EXPECT_MESSAGE(ops::linear_gelu_forward(s, x, w, Tensor(), y, filled(s, {5, 4}, 0)), ShapeError,
                 "linear_gelu_forward: a: expected f32[4, 5], got f32[5, 4]");
  EXPECT_MESSAGE(ops::linear_backward_input(s, y, filled(s, {6, 3}, 1), x), ShapeError,
                 "linear_backward_input: w: expected f32[5, 3], got f32[6, 3]");
  EXPECT_MESSAGE(ops::linear_backward_weight(s, x, y, filled(s, {2, 5, 3}, 0), false), ShapeError,
                 "both shared");
  EXPECT_MESSAGE(ops::bias_backward(s, y, filled(s, {4}, 0), false), ShapeError,
                 "bias_backward: db: expected f32[5], got f32[4]");
  EXPECT_MESSAGE(ops::tree_sum(s, filled(s, {0, 3}, 0), filled(s, {3}, 0)), ShapeError, "f32[0, 3]");
}

}  // namespace
}  // namespace shoal
