// Products and attention on 16-bit operands, what half_product_test.cpp leaves: where they round, gradients against FP64,
// numbers that are not finite, operands that lie anywhere, and the same bits on every instruction set and number of
// threads (docs/numerics.md, R2, R6, R7, R9).
#include <gtest/gtest.h>

#include <limits>

#include "kernels/cpu/attention.hpp"
#include "kernels/cpu/matmul.hpp"
#include "shoal/ops/attention.hpp"
#include "shoal/ops/matmul.hpp"
#include "src/ops/matmul_hook.hpp"
#include "support/half.hpp"

namespace shoal {
namespace {

using namespace test;
using kernels::Storage;
using V = std::vector<double>;
using I = std::int64_t;

class HalfCases : public testing::TestWithParam<DType> {
 protected:
  Stream s = Stream::create({});
  Random random;
  DType type = GetParam();
  Storage code = type == DType::bf16 ? Storage::bf16 : Storage::f16;
  const double unit =
      type == DType::bf16 ? 0x1p-8 : 0x1p-11;  // half of the spacing at 1: the largest rounding of 1

  Both both(const Shape& shape, double sigma = 1.0) {
    return Both(s, random_tensor(s, shape, random, sigma), type);
  }
  Tensor f32(const Shape& shape) { return filled(s, shape, 0.0f); }
  Tensor half(const Shape& shape) { return narrowed(s, filled(s, shape, 0.0f), type); }
  Tensor row(const std::vector<float>& v) {
    return narrowed(s, tensor_of<float>(s, {1, static_cast<I>(v.size())}, v), type);
  }
  ::testing::AssertionResult is_rounded(const Tensor& got, const Tensor& want) {
    return same_bits(got, narrowed(s, want, type));
  }
  // Of this type, where each element may differ by one rounding and by FP32's error.
  ::testing::AssertionResult near(const Tensor& got, const V& want, double scale) {
    const V x = values(widened(s, got));
    const double tiny = type == DType::f16 ? 0x1p-25 : 0.0;  // half of the least subnormal
    for (std::size_t i = 0; i < want.size(); ++i)
      if (!(std::abs(x[i] - want[i]) <= unit * std::abs(want[i]) + tiny + 1e-5 * scale))
        return ::testing::AssertionFailure() << "element " << i << ": " << x[i] << ", expected " << want[i];
    return ::testing::AssertionSuccess();
  }
  // The same elements, `odd` past a multiple of 64 bytes, pieces (dimension 0) further apart by `gap`.
  Tensor moved(const Tensor& t, I odd, I gap) {
    const I stride = t.leading_stride() + gap, pieces = t.dim(0);
    const Tensor room = narrowed(s, filled(s, {odd + pieces * stride}, -7.0f), t.dtype());
    const Tensor u = room.slice(odd, odd + pieces * stride).view(t.shape(), stride);
    for (I p = 0; p < pieces && t.nbytes() > 0; ++p)
      std::memcpy(u.select(p).data(), t.select(p).data(), static_cast<std::size_t>(t.select(p).nbytes()));
    return u;
  }
  ::testing::AssertionResult same_pieces(const Tensor& got, const Tensor& want) {
    for (I p = 0; p < want.dim(0); ++p)
      if (auto r = same_bits(got.select(p), want.select(p)); !r) return r << " in piece " << p;
    return ::testing::AssertionSuccess();
  }
};
INSTANTIATE_TEST_SUITE_P(Types, HalfCases, testing::Values(DType::bf16, DType::f16),
                         [](const auto& info) { return std::string(name(info.param)); });

struct Hook {
  explicit Hook(ops::Product p) { ops::set_product(p, 9); }
  ~Hook() { ops::set_product(ops::Product::library); }
};

// 1 + unit lies halfway between 1 and the next number. With something added to it the sum is beyond the middle; rounded
// before, it would be 1, and adding would change nothing.
TEST_P(HalfCases, OneRoundingAfterWhatFollowsTheProduct) {
  const auto u = static_cast<float>(unit);
  const Tensor x = row({1, u}), w = row({1, 1}), y = half({1, 1, 1}), up = row({1 + 2 * u}), one = row({1});
  const Tensor w3 = w.view({1, 1, 2});
  ops::linear_forward(s, x, w3, {}, y);
  EXPECT_TRUE(same_bits(y.select(0), one)) << "ties go to even";
  ops::linear_forward(s, x, w3, row({u / 16}), y);
  EXPECT_TRUE(same_bits(y.select(0), up));
  const Tensor fine =
      tensor_of<float>(s, {1, 1}, {u / 4096});  // a bias that only FP32 parameters can hold apart
  ops::linear_forward(s, x, w3, fine, y);
  EXPECT_TRUE(same_bits(y.select(0), up));
  const Tensor dy = row({1, u}), factor = row({1 + 2 * u}).view({1, 1, 1}), dx = half({1, 1, 1});
  ops::linear_gelu_backward_input(s, dy, narrowed(s, filled(s, {1, 2, 1}, 1.0f), type), factor, dx);
  // (1 + u)(1 + 2u) = 1 + 3u + 2u^2 is beyond the middle of 1 + 2u and 1 + 4u; the rounded product would give 1 + 2u.
  EXPECT_TRUE(same_bits(dx.select(0), row({1 + 4 * u})));
}

TEST_P(HalfCases, GradientsOfTheLibraryAgainstFp64) {
  const std::vector<std::vector<I>> sizes = {
      {1, 5, 7}, {20, 33, 40}, {70, 390, 50}, {100, 18, 800}, {1100, 20, 390}};
  for (const auto& size : sizes) {
    const I M = size[0], N = size[1], K = size[2];
    SCOPED_TRACE(testing::Message() << M << " x " << N << " x " << K);
    const double thin = 1 / std::sqrt(static_cast<double>(N));
    const Both x = both({M, K}), w = both({1, N, K}, thin), dy = both({1, M, N}), slope = both({1, M, K});
    const float *px = x.wide.as<float>(), *pw = w.wide.as<float>(), *pdy = dy.wide.as<float>(),
                *pslope = slope.wide.as<float>();
    V dx(M * K, 0.0), dw(N * K, 0.0), u(M * N, 0.0);
    for (I i = 0; i < M; ++i)
      for (I j = 0; j < N; ++j)
        for (I k = 0; k < K; ++k) {
          dx[i * K + k] += double{pdy[i * N + j]} * pw[j * K + k];
          dw[j * K + k] += double{pdy[i * N + j]} * px[i * K + k];
          u[i * N + j] += double{px[i * K + k]} * pw[j * K + k];
        }
    const Tensor wide = f32({1, M, K}), narrow = half({1, M, K}), got = f32({1, N, K});
    ops::linear_backward_input(s, dy.half, w.half, wide);
    EXPECT_TRUE(close(wide, dx, {dy.wide, w.wide}));
    ops::linear_backward_input(s, dy.half, w.half, narrow);
    EXPECT_TRUE(is_rounded(narrow, wide));
    V scaled = dx;
    for (I i = 0; i < M * K; ++i) scaled[i] *= pslope[i];
    ops::linear_gelu_backward_input(s, dy.half, w.half, slope.half, narrow);
    EXPECT_TRUE(near(narrow, scaled, 10));
    ops::linear_backward_weight(s, x.half, dy.half, got, false);
    EXPECT_TRUE(close(got, dw, {x.wide, dy.wide}));
    ops::linear_backward_weight(s, x.half, dy.half, got, true);
    for (double& v : dw) v *= 2;
    EXPECT_TRUE(close(got, dw, {x.wide, dy.wide}));
    V a(M * N), gradient(M * N);
    for (I i = 0; i < M * N; ++i) {
      const double c = std::sqrt(2 / 3.14159265358979323846), v = u[i];
      const double t = std::tanh(c * (v + 0.044715 * v * v * v));
      a[i] = 0.5 * v * (1 + t);
      gradient[i] = 0.5 * (1 + t) + 0.5 * v * (1 - t * t) * c * (1 + 3 * 0.044715 * v * v);
    }
    const Tensor ga = half({1, M, N}), gs = half({1, M, N});
    ops::linear_gelu_forward(s, x.half, w.half, {}, gs, ga);
    EXPECT_TRUE(near(ga, a, 10));
    EXPECT_TRUE(near(gs, gradient, 10));
  }
}

TEST_P(HalfCases, GradientsMakeTheSameCallsForThreadsAndPieces) {
  const Hook adversarial(ops::Product::adversarial);
  const I M = 140, N = 200, K = 450;
  const Both x = both({M, K}), w = both({2, N, K}), dy = both({2, M, N}), slope = both({2, M, K});
  const auto run = [&](I first, I last) {
    const I P = last - first;
    const Tensor g = half({P, M, K}), dx = half({P, M, K}), wide = f32({P, M, K}), dw = f32({P, N, K});
    const auto cut = [&](const Tensor& t) { return t.slice(first, last); };
    ops::linear_backward_input(s, cut(dy.half), cut(w.half), dx);
    ops::linear_backward_input(s, cut(dy.half), cut(w.wide), wide);
    ops::linear_gelu_backward_input(s, cut(dy.half), cut(w.half), cut(slope.half), g);
    ops::linear_backward_weight(s, x.half, cut(dy.half), dw, false);
    ops::linear_backward_weight(s, x.half, cut(dy.half), dw, true);
    s.synchronize();
    return std::vector<Tensor>{g, dx, wide, dw};
  };
  const auto runs = with_thread_counts([&] { return run(0, 2); });
  const auto alone = run(1, 2);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_TRUE(same_bits(runs[1][i], runs[0][i])) << i;
    EXPECT_TRUE(same_bits(runs[2][i], runs[0][i])) << i;
    EXPECT_TRUE(same_bits(alone[i].select(0), runs[0][i].select(1))) << i;
  }
}

TEST_P(HalfCases, WhatIsNotFiniteStaysSo) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const I M = 20, N = 3, K = 18;
  const Tensor ones = filled(s, {M, K}, 1.0f), w = filled(s, {1, N, K}, 1.0f);
  ones.as<float>()[3 * K + 17] = inf;  // rows 3 and 5, in tails; all of column 1 overflows where T is FP16
  ones.as<float>()[5 * K + 17] = nan;
  for (I i = 0; i < M; ++i) ones.as<float>()[i * K + 2] = 0.5f;
  w.as<float>()[1 * K + 2] = 65520.0f;  // FP16 has nothing between 65504 and infinity
  for (const bool rounded_weight : {false, true}) {
    const Tensor y = half({1, M, N});
    ops::linear_forward(s, narrowed(s, ones, type), rounded_weight ? narrowed(s, w, type) : w, {}, y);
    const V got = values(widened(s, y));
    for (I i = 0; i < M; ++i)
      for (I j = 0; j < N; ++j) {
        const double v = got[i * N + j];
        if (i == 5)
          EXPECT_TRUE(std::isnan(v)) << i << " " << j;
        else if (i == 3 || (j == 1 && type == DType::f16))
          EXPECT_EQ(v, inf) << i << " " << j;
        else
          EXPECT_EQ(v, j == 1 ? 32768.0 : 17.5) << i << " " << j;  // BF16: 65536 / 2 + 17 is 32768
      }
  }
  // A sum that FP32 holds and FP16 does not is infinite only where it is stored.
  const Tensor big = narrowed(s, filled(s, {1, 2}, 40000.0f), type), x = row({1, 1}), y = half({1, 1, 1}),
               exact = f32({1, 1, 1});
  ops::linear_forward(s, x, big.view({1, 1, 2}), {}, y);
  ops::linear_forward(s, x, big.view({1, 1, 2}), {}, exact);
  EXPECT_GT(exact.as<float>()[0], 79000.0f);
  EXPECT_LT(exact.as<float>()[0], 81000.0f);
  EXPECT_EQ(std::isinf(values(widened(s, y))[0]), type == DType::f16);
}

TEST_P(HalfCases, PiecesMayLieApartAndAnywhere) {
  for (const I M : {I{5}, I{70}}) {
    const I P = 3, N = 33, K = 401;
    const Both x = both({P, M, K}), w = both({P, N, K}), b = both({P, N}), dy = both({P, M, N});
    const Tensor y = half({P, M, N}), dx = half({P, M, K}), dw = f32({P, N, K});
    const auto run = [&](const Tensor& xx, const Tensor& ww, const Tensor& bb, const Tensor& dd,
                         const Tensor& yy, const Tensor& dxx, const Tensor& dww) {
      ops::linear_forward(s, xx, ww, bb, yy);
      ops::linear_backward_input(s, dd, ww, dxx);
      ops::linear_backward_weight(s, xx, dd, dww, false);
      s.synchronize();
    };
    run(x.half, w.half, b.half, dy.half, y, dx, dw);
    for (const auto& [odd, gap] : {std::pair<I, I>{1, 0}, {7, 13}, {0, 255}}) {
      const Tensor y2 = moved(half({P, M, N}), odd, gap), dx2 = moved(half({P, M, K}), odd, gap),
                   dw2 = moved(f32({P, N, K}), odd, gap);
      run(moved(x.half, odd, gap), moved(w.half, odd, gap), moved(b.half, odd, gap), moved(dy.half, odd, gap),
          y2, dx2, dw2);
      EXPECT_TRUE(same_pieces(y2, y)) << M << " " << odd << " " << gap;
      EXPECT_TRUE(same_pieces(dx2, dx)) << M << " " << odd << " " << gap;
      EXPECT_TRUE(same_pieces(dw2, dw)) << M << " " << odd << " " << gap;
    }
  }
}

TEST_P(HalfCases, ProductsOfEveryInstructionSet) {
  const I M = 70, N = 402, K = 45;
  const Both a = both({M, K}), bias = both({N}), factor = both({M, N});
  for (const bool tb : {false, true})
    for (const bool ta : {false, true})
      for (const bool wide : {false, true}) {  // B of FP32, which is rounded
        const Tensor b = random_tensor(s, {K, N}, random), stored = wide ? b : narrowed(s, b, type);
        std::vector<Tensor> c, gelu;
        for (const auto kernel : SHOAL_ALL_ISAS(matmul)) {
          c.push_back(half({M, N}));
          gelu.push_back(half({M, N}));
          kernels::MatmulArgs g{};
          g.pieces = 1, g.m = M, g.n = N, g.k = K;
          g.transpose_a = ta, g.transpose_b = tb;
          g.product = g.a_type = g.c_type = g.bias_type = code;
          g.b_type = wide ? Storage::f32 : code;
          g.a = a.half.data(), g.b = stored.data(), g.c = c.back().data();
          g.bias = bias.half.data(), g.factor = factor.half.data(), g.gelu_out = gelu.back().data();
          ASSERT_EQ(kernel(g), 0);
          EXPECT_TRUE(same_bits(c.back(), c[0])) << ta << tb << wide;
          EXPECT_TRUE(same_bits(gelu.back(), gelu[0])) << ta << tb << wide;
        }
      }
}

// Grouped queries whose heads lie in more pieces than the keys' do (the tree over query pieces), several tiles of each
// kind, dropout, a head dimension with a tail: as FP32, rounded, and the same bits of any threads, place, instruction set.
TEST_P(HalfCases, AttentionOverQueryPieces) {
  const I samples = 2, seq = 133, heads = 12, kv_heads = 2, dim = 20, tokens = samples * seq;
  for (const I pieces : {1, 4, 12}) {
    SCOPED_TRACE(testing::Message() << pieces << " query pieces");
    const ops::AttentionShape shape{samples, seq, heads, kv_heads, dim, 0.3f, 3, 20};
    const Dropout d{0.2, {7, Purpose::dropout_attention, 3, 1}, 2};
    const I width = heads / pieces * dim;
    const Both q = both({pieces, tokens, width}), kv = both({1, tokens, 2 * kv_heads * dim}),
               d_o = both({pieces, tokens, width});
    struct Results {
      Tensor o, lse, dq, dkv;
    };
    const auto results = [&](DType t) {
      const auto zeros = [&](const Shape& of) { return narrowed(s, filled(s, of, 0.0f), t); };
      return Results{zeros(q.half.shape()), f32({samples, heads, seq}), zeros(q.half.shape()),
                     zeros(kv.half.shape())};
    };
    const auto queries = [&](const Tensor& t) { return ops::HeadsView{t, 0, heads / pieces}; };
    const auto keys = [&](const Tensor& t) { return ops::HeadsView{t, 0, kv_heads}; };
    const auto vals = [&](const Tensor& t) { return ops::HeadsView{t, kv_heads * dim, kv_heads}; };
    const auto forward = [&](const Tensor& qq, const Tensor& kk, const Results& r) {
      ops::attention_forward(s, shape, queries(qq), keys(kk), vals(kk), queries(r.o), r.lse, d);
    };
    const auto backward = [&](const Tensor& qq, const Tensor& kk, const Tensor& dd, const Results& r) {
      ops::attention_backward(s, shape, queries(qq), keys(kk), vals(kk), queries(r.o), r.lse, queries(dd),
                              queries(r.dq), keys(r.dkv), vals(r.dkv), d);
      s.synchronize();
    };
    const auto runs = with_thread_counts([&] {
      const Results r = results(type);
      forward(q.half, kv.half, r);
      backward(q.half, kv.half, d_o.half, r);
      return r;
    });
    const auto expect_same = [&](const Results& r) {
      EXPECT_TRUE(same_bits(r.o, runs[0].o));
      EXPECT_TRUE(same_bits(r.lse, runs[0].lse));
      EXPECT_TRUE(same_bits(r.dq, runs[0].dq));
      EXPECT_TRUE(same_bits(r.dkv, runs[0].dkv));
    };
    expect_same(runs[1]);
    expect_same(runs[2]);
    Results wide = results(DType::f32);
    forward(q.wide, kv.wide, wide);
    EXPECT_TRUE(is_rounded(runs[0].o, wide.o));
    EXPECT_TRUE(same_bits(runs[0].lse, wide.lse));
    wide.o = widened(s, runs[0].o);  // sum(dO O) is of what was stored
    backward(q.wide, kv.wide, d_o.wide, wide);
    EXPECT_TRUE(is_rounded(runs[0].dq, wide.dq));
    EXPECT_TRUE(is_rounded(runs[0].dkv, wide.dkv));
    Results apart = results(type);
    const auto odd = [&](const Tensor& t) { return moved(t, 3, 0); };
    apart.o = odd(apart.o), apart.dq = odd(apart.dq), apart.dkv = odd(apart.dkv);
    forward(odd(q.half), odd(kv.half), apart);
    backward(odd(q.half), odd(kv.half), odd(d_o.half), apart);
    expect_same(apart);
    std::vector<Results> sets;
    const auto args = [&](const Results& r) {
      kernels::AttentionArgs g{};
      g.type = code;
      g.samples = samples, g.seq = seq, g.heads = heads, g.kv_heads = kv_heads, g.head_dim = dim,
      g.scale = 0.3f;
      const auto of = [&](const Tensor& t, I column, I each) {
        return kernels::HeadsArgs{t.data(), tokens * t.dim(-1), t.dim(-1), column, each};
      };
      g.q = of(q.half, 0, heads / pieces), g.k = of(kv.half, 0, kv_heads);
      g.v = of(kv.half, kv_heads * dim, kv_heads), g.o = of(r.o, 0, heads / pieces);
      g.lse = r.lse.as<float>();
      g.d_o = of(d_o.half, 0, heads / pieces), g.dq = of(r.dq, 0, heads / pieces);
      g.dk = of(r.dkv, 0, kv_heads), g.dv = of(r.dkv, kv_heads * dim, kv_heads);
      g.all_heads = heads;
      return g;
    };
    for (const auto kernel : SHOAL_ALL_ISAS(attention_forward)) {
      sets.push_back(results(type));
      ASSERT_EQ(kernel(args(sets.back())), 0);
    }
    std::size_t i = 0;
    for (const auto kernel : SHOAL_ALL_ISAS(attention_backward)) {
      ASSERT_EQ(kernel(args(sets[i])), 0);
      EXPECT_TRUE(same_bits(sets[i].o, sets[0].o)) << i;
      EXPECT_TRUE(same_bits(sets[i].lse, sets[0].lse)) << i;
      EXPECT_TRUE(same_bits(sets[i].dq, sets[0].dq)) << i;
      EXPECT_TRUE(same_bits(sets[i].dkv, sets[0].dkv)) << i;
      ++i;
    }
  }
}

}  // namespace
}  // namespace shoal
