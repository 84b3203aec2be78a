// Operations on 16-bit activations and parameters: FP32 inside, one rounding where they are stored. So what they give
// is, to the bit, the FP32 operation on the widened inputs, rounded.
#include <gtest/gtest.h>

#include <limits>

#include "shoal/core/error.hpp"
#include "shoal/ops/activation.hpp"
#include "shoal/ops/cross_entropy.hpp"
#include "shoal/ops/dropout.hpp"
#include "shoal/ops/embedding.hpp"
#include "shoal/ops/matmul.hpp"
#include "shoal/ops/norm.hpp"
#include "shoal/ops/rotary.hpp"
#include "support/half.hpp"

namespace shoal {
namespace {

using namespace test;

class Half : public testing::TestWithParam<DType> {
 protected:
  Stream s = Stream::create({});
  Random random;
  DType type = GetParam();

  // A tensor of the type and the same in FP32.
  Both both(const Shape& shape, double sigma = 1.0, double mean = 0.0) {
    return Both(s, random_tensor(s, shape, random, sigma, mean), type);
  }
  Tensor empty(const Shape& shape, DType t) { return Tensor::empty(shape, t, s); }
  Tensor f32(const Shape& shape) { return Tensor::empty(shape, DType::f32, s); }
  Tensor half(const Shape& shape) { return Tensor::empty(shape, type, s); }
};
INSTANTIATE_TEST_SUITE_P(Types, Half, testing::Values(DType::bf16, DType::f16),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(Half, NormsWithParametersOfAnyType) {
  for (const std::int64_t H : {1, 15, 16, 33, 129})
    for (const bool narrow_parameters : {false, true}) {
      const std::int64_t M = 70;
      const Both x = both({M, H}, 2.0, 0.5), dy = both({M, H}), dres = both({M, H}), w = both({H}),
                 b = both({H});
      const Tensor &pw = narrow_parameters ? w.half : w.wide, &pb = narrow_parameters ? b.half : b.wide;
      const Tensor y = half({M, H}), mean = f32({M}), rstd = f32({M}), y32 = f32({M, H}), mean32 = f32({M}),
                   rstd32 = f32({M});
      ops::layer_norm_forward(s, x.half, pw, pb, 1e-5f, y, mean, rstd);
      ops::layer_norm_forward(s, x.wide, w.wide, b.wide, 1e-5f, y32, mean32, rstd32);
      EXPECT_TRUE(same_bits(y, narrowed(s, y32, type)));
      EXPECT_TRUE(same_bits(mean, mean32));
      EXPECT_TRUE(same_bits(rstd, rstd32));
      const Tensor dx = half({M, H}), dw = f32({1, H}), db = f32({1, H}), dx32 = f32({M, H}),
                   dw32 = f32({1, H}), db32 = f32({1, H});
      ops::layer_norm_backward(s, dy.half, x.half, pw, mean, rstd, dres.half, dx, dw, db, false);
      ops::layer_norm_backward(s, dy.wide, x.wide, w.wide, mean, rstd, dres.wide, dx32, dw32, db32, false);
      EXPECT_TRUE(same_bits(dx, narrowed(s, dx32, type)));
      EXPECT_TRUE(same_bits(dw, dw32));
      EXPECT_TRUE(same_bits(db, db32));
      ops::rms_norm_forward(s, x.half, pw, 1e-5f, y, rstd);
      ops::rms_norm_forward(s, x.wide, w.wide, 1e-5f, y32, rstd32);
      EXPECT_TRUE(same_bits(y, narrowed(s, y32, type)));
      ops::rms_norm_backward(s, dy.half, x.half, pw, rstd, {}, dx, dw, false);
      ops::rms_norm_backward(s, dy.wide, x.wide, w.wide, rstd, {}, dx32, dw32, false);
      EXPECT_TRUE(same_bits(dx, narrowed(s, dx32, type)));
      EXPECT_TRUE(same_bits(dw, dw32));
    }
}

TEST_P(Half, ResidualRoundsTheSumBeforeDropoutReadsIt) {
  const Dropout none{}, some{0.3, {7, Purpose::dropout_ffn_out, 3, 1}, 2};
  for (const Dropout& d : {none, some})
    for (const std::int64_t H : {1, 31, 64}) {
      const std::int64_t M = 12;
      const Both x = both({M, H}), z = both({M, H}), b = both({H});
      const Tensor exact = random_tensor(s, {M, H}, random);  // a product's FP32 result
      const Tensor y = half({M, H}), sum = f32({M, H}), want = f32({M, H});
      for (const bool bias : {false, true}) {
        ops::residual_forward(s, x.half, exact, bias ? b.half : Tensor(), d, M, y);
        const Tensor zero = filled(s, {M, H}, 0.0f);
        ops::residual_forward(s, zero, exact, bias ? b.wide : Tensor(), none, M, sum);
        const Tensor rounded = widened(s, narrowed(s, sum, type));
        ops::residual_forward(s, x.wide, rounded, {}, d, M, want);
        EXPECT_TRUE(same_bits(y, narrowed(s, want, type))) << "hidden " << H << ", bias " << bias;
        // z of the activations' own type.
        ops::residual_forward(s, x.half, z.half, bias ? b.wide : Tensor(), d, M, y);
        ops::residual_forward(s, zero, z.wide, bias ? b.wide : Tensor(), none, M, sum);
        ops::residual_forward(s, x.wide, widened(s, narrowed(s, sum, type)), {}, d, M, want);
        EXPECT_TRUE(same_bits(y, narrowed(s, want, type)));
      }
      ops::dropout_backward(s, x.half, d, M, y);
      ops::dropout_backward(s, x.wide, d, M, want);
      EXPECT_TRUE(same_bits(y, narrowed(s, want, type)));
    }
}

TEST_P(Half, SumsOfPiecesAndRows) {
  for (const std::int64_t pieces : {1, 3, 4})
    for (const std::int64_t n : {1, 100, 4099}) {
      const Tensor x = random_tensor(s, {pieces, n}, random), y = half({n}), want = f32({n});
      ops::tree_sum(s, x, y);
      ops::tree_sum(s, x, want);
      EXPECT_TRUE(same_bits(y, narrowed(s, want, type)));
      const Both dy = both({pieces, 130, 33});
      const Tensor db = filled(s, {pieces, 33}, 1.0f), db32 = filled(s, {pieces, 33}, 1.0f);
      for (const bool accumulate : {false, true}) {
        ops::bias_backward(s, dy.half, db, accumulate);
        ops::bias_backward(s, dy.wide, db32, accumulate);
        EXPECT_TRUE(same_bits(db, db32));
      }
    }
}

TEST_P(Half, EmbeddingRoundsTheSumOnceAndAgainAfterDropout) {
  const std::int64_t V = 10, seq = 6, H = 37, M = 12;
  const Both word = both({V, H}), position = both({seq, H}), dy = both({M, H});
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < M; ++i) ids.push_back(static_cast<std::int32_t>((7 * i) % V));
  const Tensor tokens = tensor_of<std::int32_t>(s, {M}, ids);
  const Dropout some{0.25, {7, Purpose::dropout_embedding, 3, 0}, 4};
  for (const bool narrow : {false, true}) {
    const Tensor y = half({M, H}), want = f32({M, H});
    const Tensor &w = narrow ? word.half : word.wide, &p = narrow ? position.half : position.wide;
    ops::embedding_forward(s, tokens, w, p, seq, {}, y);
    ops::embedding_forward(s, tokens, word.wide, position.wide, seq, {}, want);
    EXPECT_TRUE(same_bits(y, narrowed(s, want, type)));
    const Tensor rounded = widened(s, y);
    ops::embedding_forward(s, tokens, w, p, seq, some, y);
    ops::dropout_forward(s, rounded, some, seq, want);
    EXPECT_TRUE(same_bits(y, narrowed(s, want, type)));
  }
  const Tensor dw = f32({V, H}), dp = f32({seq, H}), dw32 = f32({V, H}), dp32 = f32({seq, H});
  ops::embedding_backward(s, dy.half, tokens, seq, some, dw, dp, false);
  ops::embedding_backward(s, dy.wide, tokens, seq, some, dw32, dp32, false);
  EXPECT_TRUE(same_bits(dw, dw32));
  EXPECT_TRUE(same_bits(dp, dp32));
}

TEST_P(Half, CrossEntropyKeepsItsExponentialsInFp32) {
  for (const std::int64_t vocab : {1, 5, 17, 1000, 1031}) {
    const std::int64_t M = 9, pieces = 3, width = (vocab + 2) / 3;
    const Both logits = both({pieces, M, width}, 3.0);
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < M; ++i)
      ids.push_back(i == 4 ? ops::ignored_token : static_cast<std::int32_t>((11 * i) % vocab));
    const Tensor targets = tensor_of<std::int32_t>(s, {M}, ids);
    const Tensor loss = f32({M}), loss32 = f32({M}), d = half({pieces, M, width}),
                 d32 = f32({pieces, M, width});
    ops::cross_entropy(s, logits.half, targets, vocab, loss, d, 1024.0f);
    ops::cross_entropy(s, logits.wide, targets, vocab, loss32, d32, 1024.0f);
    EXPECT_TRUE(same_bits(loss, loss32)) << vocab;
    EXPECT_TRUE(same_bits(d, narrowed(s, d32, type))) << vocab;
    const Tensor place = clone(s, logits.half);
    ops::cross_entropy(s, place, targets, vocab, loss, place, 1024.0f);  // in place
    EXPECT_TRUE(same_bits(d, place)) << vocab;
    ops::cross_entropy(s, logits.half, targets, vocab, loss, {}, 0.0f);
    EXPECT_TRUE(same_bits(loss, loss32));
  }
}

TEST_P(Half, ActivationsAndRotations) {
  for (const std::int64_t n : {1, 16, 37, 4099}) {
    const Both x = both({n}, 3.0), dy = both({n});
    const Tensor y = half({n}), want = f32({n});
    ops::gelu_forward(s, x.half, y);
    ops::gelu_forward(s, x.wide, want);
    EXPECT_TRUE(same_bits(y, narrowed(s, want, type)));
    ops::gelu_backward(s, dy.half, x.half, y);
    ops::gelu_backward(s, dy.wide, x.wide, want);
    EXPECT_TRUE(same_bits(y, narrowed(s, want, type)));
    const Both gu = both({3, 2 * n}, 2.0), d = both({3, n});
    const Tensor out = half({3, n}), out32 = f32({3, n}), dgu = half({3, 2 * n}), dgu32 = f32({3, 2 * n});
    ops::swiglu_forward(s, gu.half, out);
    ops::swiglu_forward(s, gu.wide, out32);
    EXPECT_TRUE(same_bits(out, narrowed(s, out32, type)));
    ops::swiglu_backward(s, d.half, gu.half, dgu);
    ops::swiglu_backward(s, d.wide, gu.wide, dgu32);
    EXPECT_TRUE(same_bits(dgu, narrowed(s, dgu32, type)));
  }
  const Tensor cos = f32({7, 11}), sin = f32({7, 11});
  ops::rotary_table(s, 7, 22, 10000.0, cos, sin);
  const Both x = both({2, 14, 50});
  for (const bool backward : {false, true}) {
    const Tensor y = clone(s, x.half), want = clone(s, x.wide);
    ops::rotary(s, {y, 5, 2}, 4, 22, 2, 7, cos, sin, backward);
    ops::rotary(s, {want, 5, 2}, 4, 22, 2, 7, cos, sin, backward);
    EXPECT_TRUE(same_bits(y, narrowed(s, want, type)));
  }
}

TEST_P(Half, WhatIsNotFiniteStaysSo) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = narrowed(s, tensor_of<float>(s, {1, 4}, {inf, -inf, NAN, 1e38f}), type);
  const Tensor zero = narrowed(s, filled(s, {1, 4}, 0.0f), type), y = half({1, 4});
  ops::residual_forward(s, x, zero, {}, {}, 1, y);
  const std::vector<double> v = values(widened(s, y));
  EXPECT_EQ(v[0], inf);
  EXPECT_EQ(v[1], -inf);
  EXPECT_TRUE(std::isnan(v[2]));
  EXPECT_EQ(std::isinf(v[3]), type == DType::f16);
}

TEST_P(Half, TypesThatDoNotFitAreRefused) {
  const DType other = type == DType::bf16 ? DType::f16 : DType::bf16;
  const Tensor x = half({2, 4}), y = half({2, 4}), wrong = empty({2, 4}, other), w = f32({4}),
               stat = f32({2});
  EXPECT_THROW(ops::layer_norm_forward(s, x, w, w, 1e-5f, wrong, stat, stat), ShapeError);
  EXPECT_THROW(ops::layer_norm_forward(s, x, w, half({4}), 1e-5f, y, stat, stat), ShapeError);
  EXPECT_THROW(ops::residual_forward(s, x, wrong, {}, {}, 1, y), ShapeError);
  EXPECT_THROW(ops::residual_forward(s, x, y, {}, {}, 1, f32({2, 4})), ShapeError);
  EXPECT_THROW(ops::dropout_forward(s, x, {}, 1, wrong), ShapeError);
  EXPECT_THROW(ops::gelu_forward(s, x, wrong), ShapeError);
  EXPECT_THROW(ops::swiglu_forward(s, x, f32({2, 2})), ShapeError);
  EXPECT_THROW(ops::cross_entropy(s, half({1, 2, 4}), tensor_of<std::int32_t>(s, {2}, {0, 1}), 4, stat,
                                  f32({1, 2, 4}), 1.0f),
               ShapeError);
  EXPECT_THROW(ops::bias_backward(s, half({1, 2, 4}), half({1, 4}), false), ShapeError);
  EXPECT_THROW(ops::tree_sum(s, half({2, 4}), half({4})), ShapeError);
  EXPECT_THROW(ops::gelu_forward(s, empty({4}, DType::f64), empty({4}, DType::f64)), ShapeError);
}

}  // namespace
}  // namespace shoal
