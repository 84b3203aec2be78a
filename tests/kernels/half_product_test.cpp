// Matrix products and attention on 16-bit operands: FP32 tiles and sums, one rounding of the result. With products made
// by a plain loop they are, to the bit, the FP32 operations on the widened operands, rounded.
#include <gtest/gtest.h>

#include "shoal/core/error.hpp"
#include "shoal/ops/attention.hpp"
#include "shoal/ops/matmul.hpp"
#include "src/ops/matmul_hook.hpp"
#include "support/half.hpp"

namespace shoal {
namespace {

using namespace test;

class HalfProduct : public testing::TestWithParam<DType> {
 protected:
  Stream s = Stream::create({});
  Random random;
  DType type = GetParam();

  Both both(const Shape& shape, double sigma = 1.0) {
    return Both(s, random_tensor(s, shape, random, sigma), type);
  }
  Tensor f32(const Shape& shape) { return Tensor::empty(shape, DType::f32, s); }
  Tensor half(const Shape& shape) { return Tensor::empty(shape, type, s); }
  ::testing::AssertionResult is_rounded(const Tensor& got, const Tensor& want) {
    return same_bits(got, narrowed(s, want, type));
  }
};
INSTANTIATE_TEST_SUITE_P(Types, HalfProduct, testing::Values(DType::bf16, DType::f16),
                         [](const auto& info) { return std::string(name(info.param)); });

struct Loop {
  explicit Loop(ops::Product p = ops::Product::loop) { ops::set_product(p, 5); }
  ~Loop() { ops::set_product(ops::Product::library); }
};

struct Sizes {
  std::int64_t pieces, m, n, k;
};
// Fewer rows than are packed in FP32, tails everywhere, several tiles of each dimension, nothing to sum.
const std::vector<Sizes> few = {{1, 1, 5, 7},     {2, 3, 17, 33},   {3, 33, 20, 40},
                                {1, 70, 390, 50}, {2, 40, 18, 800}, {1, 5, 6, 0}};
const std::vector<Sizes> sizes = {{1, 1, 5, 7},       {2, 3, 17, 33},   {1, 16, 16, 16},    {3, 33, 20, 40},
                                  {1, 70, 390, 50},   {2, 40, 18, 800}, {1, 130, 385, 390}, {1, 4, 400, 10},
                                  {2, 1100, 33, 400}, {1, 5, 6, 0}};

TEST_P(HalfProduct, LinearLayersAreTheFp32OnesRounded) {
  const Loop loop;
  for (const auto& [P, M, N, K] : few) {
    SCOPED_TRACE(testing::Message() << P << " x " << M << " x " << N << " x " << K);
    const Both x = both({M, K}), w = both({P, N, K}), b = both({P, N}), dy = both({P, M, N});
    const Tensor y = half({P, M, N}), y32 = f32({P, M, N}), same = f32({P, M, N});
    for (const bool narrow : {true, false}) {  // parameters of 16 bits, or of FP32 that round to themselves
      const Tensor &pw = narrow ? w.half : w.wide, &pb = narrow ? b.half : b.wide;
      ops::linear_forward(s, x.half, pw, pb, y);
      ops::linear_forward(s, x.wide, w.wide, b.wide, y32);
      EXPECT_TRUE(is_rounded(y, y32));
      ops::linear_forward(s, x.half, pw, pb, same);
      EXPECT_TRUE(same_bits(same, y32));
      const Tensor slope = half({P, M, N}), a = half({P, M, N}), slope32 = f32({P, M, N}),
                   a32 = f32({P, M, N});
      ops::linear_gelu_forward(s, x.half, pw, pb, slope, a);
      ops::linear_gelu_forward(s, x.wide, w.wide, b.wide, slope32, a32);
      EXPECT_TRUE(is_rounded(slope, slope32));
      EXPECT_TRUE(is_rounded(a, a32));
      const Tensor dx = half({P, M, K}), dx32 = f32({P, M, K}), same_dx = f32({P, M, K});
      ops::linear_backward_input(s, dy.half, pw, dx);
      ops::linear_backward_input(s, dy.wide, w.wide, dx32);
      EXPECT_TRUE(is_rounded(dx, dx32));
      ops::linear_backward_input(s, dy.half, pw, same_dx);
      EXPECT_TRUE(same_bits(same_dx, dx32));
      ops::linear_backward_input(s, dy.half, pw, same_dx, /*accumulate=*/true);
      ops::linear_backward_input(s, dy.wide, w.wide, dx32, /*accumulate=*/true);
      EXPECT_TRUE(same_bits(same_dx, dx32));
      const Both factor = both({P, M, K});
      ops::linear_gelu_backward_input(s, dy.half, pw, factor.half, dx);
      ops::linear_gelu_backward_input(s, dy.wide, w.wide, factor.wide, dx32);
      EXPECT_TRUE(is_rounded(dx, dx32));
    }
    const Tensor dw = f32({P, N, K}), dw32 = f32({P, N, K});
    for (const bool accumulate : {false, true}) {
      ops::linear_backward_weight(s, x.half, dy.half, dw, accumulate);
      ops::linear_backward_weight(s, x.wide, dy.wide, dw32, accumulate);
      EXPECT_TRUE(same_bits(dw, dw32));
    }
  }
}

// FP32 weights are rounded to the activations' type before they are multiplied.
TEST_P(HalfProduct, WiderOperandsAreRoundedFirst) {
  const Loop loop;
  const Both x = both({20, 50});
  const Tensor w = random_tensor(s, {1, 30, 50}, random), y = f32({1, 20, 30}), want = f32({1, 20, 30});
  ops::linear_forward(s, x.half, w, {}, y);
  ops::linear_forward(s, x.wide, widened(s, narrowed(s, w, type)), {}, want);
  EXPECT_TRUE(same_bits(y, want));
  ops::linear_forward(s, x.wide, narrowed(s, w, type), {}, y);  // FP32 activations: the weight is widened
  EXPECT_TRUE(same_bits(y, want));
}

TEST_P(HalfProduct, TransposedOperandsOfAllTypes) {
  const Loop loop;
  for (const auto& [P, M, N, K] : few)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const int narrow : {1, 2, 3}) {  // which of the two are of 16 bits
          const Both a = both(ta ? Shape{P, K, M} : Shape{P, M, K}),
                     b = both(tb ? Shape{P, N, K} : Shape{P, K, N});
          const Tensor c = f32({P, M, N}), want = f32({P, M, N});
          ops::matmul(s, narrow & 1 ? a.half : a.wide, narrow & 2 ? b.half : b.wide, c,
                      {.transpose_a = ta, .transpose_b = tb});
          ops::matmul(s, a.wide, b.wide, want, {.transpose_a = ta, .transpose_b = tb});
          EXPECT_TRUE(same_bits(c, want)) << M << " " << N << " " << K << ta << tb;
        }
}

// The library's product: against FP64, and the same bits for any thread count and owner of a piece (R2).
TEST_P(HalfProduct, OfTheLibraryAreAccurateAndIndependentOfThreadsAndPieces) {
  for (const auto& [P, M, N, K] : sizes) {
    const Both x = both({M, K}), w = both({P, N, K});
    const auto runs = with_thread_counts([&] {
      const Tensor y = half({P, M, N});
      ops::linear_forward(s, x.half, w.half, {}, y);
      return y;
    });
    EXPECT_TRUE(same_bits(runs[0], runs[1]));
    EXPECT_TRUE(same_bits(runs[0], runs[2]));
    const Tensor exact = f32({P, M, N});
    ops::linear_forward(s, x.half, w.half, {}, exact);
    std::vector<double> want(static_cast<std::size_t>(P * M * N), 0.0);
    for (std::int64_t p = 0; p < P; ++p)
      for (std::int64_t i = 0; i < M; ++i)
        for (std::int64_t j = 0; j < N; ++j)
          for (std::int64_t k = 0; k < K; ++k)
            want[(p * M + i) * N + j] +=
                double{x.wide.as<float>()[i * K + k]} * double{w.wide.as<float>()[(p * N + j) * K + k]};
    EXPECT_TRUE(close(exact, want, {x.wide, w.wide}));
    EXPECT_TRUE(is_rounded(runs[0], exact));
    for (std::int64_t p = 0; p < P; ++p) {
      const Tensor one = half({1, M, N});
      ops::linear_forward(s, x.half, w.half.slice(p, p + 1), {}, one);
      EXPECT_TRUE(same_bits(one.select(0), runs[0].select(p)));
    }
  }
}

TEST_P(HalfProduct, MakeTheSameCallsForThreadsAndPieces) {
  const Loop adversarial(ops::Product::adversarial);
  const Both x = both({140, 500}), w = both({2, 400, 500});
  const auto runs = with_thread_counts([&] {
    const Tensor y = half({2, 140, 400});
    ops::linear_forward(s, x.half, w.half, {}, y);
    return y;
  });
  EXPECT_TRUE(same_bits(runs[0], runs[1]));
  EXPECT_TRUE(same_bits(runs[0], runs[2]));
}

TEST_P(HalfProduct, AttentionIsTheFp32OneRounded) {
  for (const std::int64_t kv_heads : {4, 2})
    for (const std::int64_t dim : {8, 20})
      for (const double p : {0.0, 0.2}) {
        const std::int64_t samples = 2, seq = 70, heads = 4, tokens = samples * seq;
        const std::int64_t pieces = 2, width = heads / pieces * dim;
        const ops::AttentionShape shape{samples, seq, heads, kv_heads, dim, 0.3f};
        const Dropout d{p, {7, Purpose::dropout_attention, 3, 1}, 2};
        const std::int64_t kv_width = kv_heads / pieces * dim;
        const Both q = both({pieces, tokens, width}), k = both({pieces, tokens, kv_width}),
                   v = both({pieces, tokens, kv_width}), d_o = both({pieces, tokens, width});
        const auto view = [&](const Tensor& t, std::int64_t n) { return ops::HeadsView{t, 0, n / pieces}; };
        const Tensor o = half({pieces, tokens, width}), o32 = f32({pieces, tokens, width}),
                     lse = f32({samples, heads, seq}), lse32 = f32({samples, heads, seq});
        ops::attention_forward(s, shape, view(q.half, heads), view(k.half, kv_heads), view(v.half, kv_heads),
                               view(o, heads), lse, d);
        ops::attention_forward(s, shape, view(q.wide, heads), view(k.wide, kv_heads), view(v.wide, kv_heads),
                               view(o32, heads), lse32, d);
        EXPECT_TRUE(is_rounded(o, o32));
        EXPECT_TRUE(same_bits(lse, lse32));
        const Tensor rounded = widened(s, o);  // backward reads what was stored
        const Tensor dq = half(q.half.shape()), dk = half(k.half.shape()), dv = half(v.half.shape()),
                     dq32 = f32(q.half.shape()), dk32 = f32(k.half.shape()), dv32 = f32(v.half.shape());
        ops::attention_backward(s, shape, view(q.half, heads), view(k.half, kv_heads), view(v.half, kv_heads),
                                view(o, heads), lse, view(d_o.half, heads), view(dq, heads),
                                view(dk, kv_heads), view(dv, kv_heads), d);
        ops::attention_backward(s, shape, view(q.wide, heads), view(k.wide, kv_heads), view(v.wide, kv_heads),
                                view(rounded, heads), lse, view(d_o.wide, heads), view(dq32, heads),
                                view(dk32, kv_heads), view(dv32, kv_heads), d);
        EXPECT_TRUE(is_rounded(dq, dq32));
        EXPECT_TRUE(is_rounded(dk, dk32));
        EXPECT_TRUE(is_rounded(dv, dv32));
      }
}

TEST_P(HalfProduct, TypesThatDoNotFitAreRefused) {
  const DType other = type == DType::bf16 ? DType::f16 : DType::bf16;
  const Tensor x = half({4, 8}), w = half({1, 3, 8}), y = half({1, 4, 3}),
               strange = Tensor::empty({1, 3, 8}, other, s);
  EXPECT_THROW(ops::linear_forward(s, x, strange, {}, y), ShapeError);
  EXPECT_THROW(ops::linear_forward(s, x, w, {}, Tensor::empty({1, 4, 3}, other, s)), ShapeError);
  EXPECT_THROW(ops::linear_forward(s, f32({4, 8}), w, {}, y), ShapeError);  // FP32 activations, 16-bit result
  EXPECT_THROW(ops::linear_backward_weight(s, x, y, half({1, 3, 8}), false), ShapeError);
  EXPECT_THROW(ops::linear_backward_weight(s, x, f32({1, 4, 3}), f32({1, 3, 8}), false), ShapeError);
  EXPECT_THROW(ops::linear_backward_input(s, y, w, half({1, 4, 8}), /*accumulate=*/true), ShapeError);
  EXPECT_THROW(ops::matmul(s, x, Tensor::empty({8, 3}, other, s), f32({4, 3})), ShapeError);
  const ops::AttentionShape shape{1, 4, 1, 1, 8, 1.0f};
  const ops::HeadsView q{x, 0, 1}, k{f32({4, 8}), 0, 1};
  EXPECT_THROW(ops::attention_forward(s, shape, q, k, k, q, f32({1, 1, 4}), {}), ShapeError);
}

}  // namespace
}  // namespace shoal
