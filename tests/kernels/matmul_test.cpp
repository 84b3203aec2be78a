#include "shoal/ops/matmul.hpp"

#include "kernels/common/matmul_plan.hpp"
#include "shoal/core/error.hpp"
#include "src/ops/matmul_hook.hpp"
#include "support/expect_message.hpp"
#include "support/reference.hpp"

namespace shoal {
namespace {

using namespace test;
using I = std::int64_t;

// C = op(A) op(B) (+ C0) in FP64, over pieces; rank-2 operands are shared.
std::vector<double> reference(const Tensor& a, const Tensor& b, const Tensor& c0, ops::MatmulOptions o) {
  const I pieces = c0.shape().rank() == 3 ? c0.dim(0) : 1, m = c0.dim(-2), n = c0.dim(-1);
  const I k = o.transpose_a ? a.dim(-2) : a.dim(-1);
  std::vector<double> c = values(c0);
  const std::vector<double> x = values(a), y = values(b);
  for (I p = 0; p < pieces; ++p)
    for (I i = 0; i < m; ++i)
      for (I j = 0; j < n; ++j) {
        double s = 0.0;
        const I ap = a.shape().rank() == 3 ? p * m * k : 0, bp = b.shape().rank() == 3 ? p * k * n : 0;
        for (I l = 0; l < k; ++l)
          s += x[ap + (o.transpose_a ? l * m + i : i * k + l)] *
               y[bp + (o.transpose_b ? j * k + l : l * n + j)];
        double& out = c[(p * m + i) * n + j];
        out = o.accumulate ? out + s : s;
      }
  return c;
}

Shape shape(I pieces, I rows, I cols) { return pieces ? Shape{pieces, rows, cols} : Shape{rows, cols}; }

TEST(MatmulPlan, TilesCoverTheProductAndFitTheScratch) {
  for (I m : {0, 1, 15, 16, 33, 257, 1024, 4096})
    for (I n : {0, 1, 31, 384, 385, 768, 1000, 1024, 50304})
      for (I k : {0, 1, 257, 384, 400, 1024, 4096}) {
        const auto p = kernels::matmul_plan(m, n, k);
        ASSERT_GE(p.m, 1);
        ASSERT_GE(p.n, 1);
        if (!p.packed) continue;
        ASSERT_LE(p.m, kernels::matmul_max_m);
        ASSERT_LE(p.n, kernels::matmul_max_n) << n;
        ASSERT_LE(p.k, kernels::matmul_max_k) << k;
        ASSERT_GE(p.k, 1);
      }
  EXPECT_EQ(kernels::matmul_plan(2048, 1024, 1024).n, 352);
  EXPECT_EQ(kernels::matmul_plan(2048, 768, 1024).k, 352);
  EXPECT_EQ(kernels::matmul_plan(2048, 768, 256).m, 64);
  EXPECT_EQ(kernels::matmul_plan(256, 128, 128).m, 32);
}

class Matmul : public testing::Test {
 protected:
  Random random;
  const Stream s = Stream::create({});

  void check(I pa, I pb, I pc, I m, I n, I k, ops::MatmulOptions o) {
    const Tensor a = random_tensor(s, o.transpose_a ? shape(pa, k, m) : shape(pa, m, k), random);
    const Tensor b = random_tensor(s, o.transpose_b ? shape(pb, n, k) : shape(pb, k, n), random);
    const Tensor c0 = random_tensor(s, shape(pc, m, n), random), c = clone(s, c0);
    ops::matmul(s, a, b, c, o);
    EXPECT_TRUE(close(c, reference(a, b, c0, o), {a, b, o.accumulate ? c0 : Tensor()}))
        << m << " " << n << " " << k << " pieces " << pa << " " << pb << " " << pc << " transposed "
        << o.transpose_a << o.transpose_b << " accumulate " << o.accumulate;
  }
};

TEST_F(Matmul, AgreesWithFp64AtSizesThatAreMultiplesOfNothing) {
  for (I m : odd_sizes())
    for (I n : odd_sizes())
      for (I k : odd_sizes())
        for (int f = 0; f < 8; ++f)
          if (m * n * k < 257 * 257 * 33 || f == 5)
            check(0, 0, 0, m, n, k, {(f & 1) != 0, (f & 2) != 0, (f & 4) != 0});
}

TEST_F(Matmul, AgreesWithFp64WhenEveryDimensionNeedsSeveralTiles) {
  check(0, 0, 0, 150, 801, 797, {});
  check(0, 0, 0, 150, 401, 797, {true, false, true});
  check(0, 0, 0, 150, 401, 797, {false, true, true});
}

TEST_F(Matmul, SharesOperandsOfRankTwoAmongPieces) {
  for (I p : {1, 2, 3})
    for (I m : {5, 33})
      for (int f = 0; f < 8; ++f) {
        const ops::MatmulOptions o{(f & 1) != 0, (f & 2) != 0, (f & 4) != 0};
        check(p, p, p, m, 31, 20, o);
        check(0, p, p, m, 31, 20, o);
        check(p, 0, p, m, 31, 20, o);
      }
}

TEST_F(Matmul, ErrorsNameBothShapes) {
  const Tensor a = filled(s, {2, 4, 3}, 1), b = filled(s, {3, 5}, 1), c = filled(s, {4, 5}, 0);
  EXPECT_MESSAGE(ops::matmul(s, a, b, c), ShapeError, "matmul: a: expected f32[1, 4, 3], got f32[2, 4, 3]");
  EXPECT_MESSAGE(ops::matmul(s, a, filled(s, {4, 5}, 1), filled(s, {2, 4, 5}, 0)), ShapeError,
                 "matmul: b: expected f32[3, 5], got f32[4, 5]");
  EXPECT_MESSAGE(ops::matmul(s, filled(s, {4}, 1), b, c), ShapeError, "got f32[4]");
  EXPECT_MESSAGE(ops::matmul(s, Tensor::empty({4, 3}, DType::i32, s), b, c), ShapeError, "i32[4, 3]");
}

// A copy whose data starts one float past a 256-byte boundary.
Tensor unaligned(const Stream& s, const Tensor& t) {
  const Tensor room = Tensor::empty({t.numel() + 1}, DType::f32, s);
  const Tensor u = room.slice(1, t.numel() + 1).view(t.shape());
  std::memcpy(u.data(), t.data(), static_cast<std::size_t>(t.nbytes()));
  return u;
}

struct Step {
  I pieces, m, n, k;
  bool ta, tb, accumulate;
};

// Every product of a training step: for each weight [out, in] over `tokens`, forward, dX and dW.
std::vector<Step> steps(I tokens, I pieces, std::initializer_list<std::pair<I, I>> weights) {
  std::vector<Step> list;
  for (const auto& [out, in] : weights) {
    list.push_back({pieces, tokens, out, in, false, true, false});
    list.push_back({pieces, tokens, in, out, false, false, false});
    list.push_back({pieces, out, in, tokens, true, false, true});
  }
  return list;
}

class Replay : public testing::TestWithParam<ops::Product> {};

// R2: the bits of every product of a GPT's and a Llama's step, at 1, 2 and 4 threads, from aligned and
// unaligned bases, and made piece by piece instead of together.
TEST_P(Replay, EveryProductOfAStepHasTheSameBits) {
  const bool library = GetParam() == ops::Product::library;
  const I tokens = library ? 256 : 48, h = library ? 256 : 24;
  std::vector<Step> list = steps(tokens, 1, {{3 * h, h}, {h, h}, {4 * h, h}, {h, 4 * h}, {h + 1, h}});  // GPT
  for (const Step& step : steps(tokens, 2, {{h / 2 + h / 4, h}, {h, h / 2}, {8 * h / 3, h}, {h, 4 * h / 3}}))
    list.push_back(step);  // Llama, two tensor pieces
  if (library)
    for (const Step& step : steps(96, 1, {{1152, 384}, {384, 1536}, {1024, 257}, {64, 4096}}))
      list.push_back(step);
  Random random;
  const Stream s = Stream::create({});
  const int before = num_threads();
  ops::set_product(GetParam(), 7);
  for (const Step& step : list) {
    const ops::MatmulOptions o{step.ta, step.tb, step.accumulate};
    const Tensor a = random_tensor(
        s, step.ta ? shape(step.pieces, step.k, step.m) : shape(step.pieces, step.m, step.k), random);
    const Tensor b = random_tensor(
        s, step.tb ? shape(step.pieces, step.n, step.k) : shape(step.pieces, step.k, step.n), random);
    const Tensor c0 = random_tensor(s, {step.pieces, step.m, step.n}, random);
    set_num_threads(1);
    const Tensor want = clone(s, c0);
    ops::matmul(s, a, b, want, o);
    for (int threads : {1, 2, 4}) {
      set_num_threads(threads);
      const Tensor got = clone(s, c0);
      ops::matmul(s, a, b, got, o);
      EXPECT_TRUE(same_bits(got, want)) << threads << " threads";
      const Tensor moved = unaligned(s, c0);
      ops::matmul(s, unaligned(s, a), unaligned(s, b), moved, o);
      EXPECT_TRUE(same_bits(moved, want)) << threads << " threads, unaligned";
      const Tensor single = clone(s, c0);
      for (I p = 0; p < step.pieces; ++p) ops::matmul(s, a.select(p), b.select(p), single.select(p), o);
      EXPECT_TRUE(same_bits(single, want)) << threads << " threads, piece by piece";
    }
  }
  set_num_threads(before);
  ops::set_product(ops::Product::library);
}
INSTANTIATE_TEST_SUITE_P(, Replay, testing::Values(ops::Product::library, ops::Product::adversarial),
                         [](const auto& info) {
                           return info.param == ops::Product::library ? "library" : "adversarial";
                         });

TEST(MatmulHook, LoopSumsUpwardAndAdversarialDependsOnTheSeed) {
  Random random;
  const Stream s = Stream::create({});
  const I m = 20, n = 17, k = 800;
  const Tensor a = random_tensor(s, {m, k}, random), b = random_tensor(s, {k, n}, random);
  const Tensor c = random_tensor(s, {m, n}, random), want = clone(s, c), once = clone(s, c),
               again = clone(s, c);
  for (I i = 0; i < m; ++i)
    for (I j = 0; j < n; ++j)
      for (I l = 0; l < k; ++l)
        want.as<float>()[i * n + j] += a.as<float>()[i * k + l] * b.as<float>()[l * n + j];
  ops::set_product(ops::Product::loop);
  ops::matmul(s, a, b, c, {false, false, true});
  EXPECT_TRUE(same_bits(c, want));
  ops::set_product(ops::Product::adversarial, 1);
  ops::matmul(s, a, b, once, {false, false, true});
  ops::set_product(ops::Product::adversarial, 2);
  ops::matmul(s, a, b, again, {false, false, true});
  ops::set_product(ops::Product::library);
  EXPECT_FALSE(same_bits(once, again));
  EXPECT_FALSE(same_bits(once, want));
}

}  // namespace
}  // namespace shoal
