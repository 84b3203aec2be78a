#include "shoal/ops/optimizer.hpp"

#include <gtest/gtest.h>

#include "kernels/cpu/optimizer.hpp"
#include "shoal/core/error.hpp"
#include "support/reference.hpp"

namespace shoal {
namespace {

using namespace test;

ops::AdamWStep adamw(double lr, double weight_decay, int t, double grad_scale = 1.0) {
  const double beta1 = 0.9, beta2 = 0.99;
  return {.beta1 = static_cast<float>(beta1),
          .one_minus_beta1 = static_cast<float>(1 - beta1),
          .beta2 = static_cast<float>(beta2),
          .one_minus_beta2 = static_cast<float>(1 - beta2),
          .decay = static_cast<float>(1 - lr * weight_decay),
          .step_size = static_cast<float>(lr / (1 - std::pow(beta1, t))),
          .inv_sqrt_bias2 = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, t))),
          .eps = 1e-8f,
          .grad_scale = static_cast<float>(grad_scale)};
}

TEST(AdamW, FollowsTheAlgorithmInFp64ForTenSteps) {
  const Stream s = Stream::create({});
  Random random;
  for (std::int64_t n : odd_sizes()) {
    const Tensor p = random_tensor(s, {n}, random), m = filled(s, {n}, 0), v = filled(s, {n}, 0);
    std::vector<double> p64 = values(p), m64(p64.size()), v64(p64.size());
    for (int t = 1; t <= 10; ++t) {
      const Tensor g = random_tensor(s, {n}, random);
      ops::adamw_step(s, p, g, m, v, adamw(0.01, 0.1, t, 0.5));
      for (std::int64_t i = 0; i < n; ++i) {
        const double gi = 0.5 * g.as<float>()[i];
        m64[i] = 0.9 * m64[i] + 0.1 * gi;
        v64[i] = 0.99 * v64[i] + 0.01 * gi * gi;
        const double m_hat = m64[i] / (1 - std::pow(0.9, t)), v_hat = v64[i] / (1 - std::pow(0.99, t));
        p64[i] -= 0.01 * (0.1 * p64[i] + m_hat / (std::sqrt(v_hat) + 1e-8));
      }
      EXPECT_TRUE(close(p, p64, {g}, 1e-6)) << "step " << t;
      EXPECT_TRUE(close(m, m64, {g}, 1e-6));
      EXPECT_TRUE(close(v, v64, {g}, 1e-6));
    }
  }
}

// Decay 0.1 at lr 1 with no gradient multiplies by 0.9, and without decay nothing moves: to the bit.
TEST(AdamW, WithZeroGradientsOnlyDecayActs) {
  const Stream s = Stream::create({});
  Random random;
  const Tensor p = random_tensor(s, {257}, random), before = clone(s, p), zero = filled(s, {257}, 0);
  const Tensor m = filled(s, {257}, 0), v = filled(s, {257}, 0);
  ops::adamw_step(s, p, zero, m, v, adamw(1.0, 0.0, 1));
  EXPECT_TRUE(same_bits(p, before));
  ops::adamw_step(s, p, zero, m, v, adamw(1.0, 0.1, 1));
  for (int i = 0; i < 257; ++i) ASSERT_EQ(p.as<float>()[i], before.as<float>()[i] * 0.9f);
  EXPECT_TRUE(same_bits(m, zero));
  EXPECT_TRUE(same_bits(v, zero));
}

// The first step moves every parameter by lr against the sign of its gradient, whatever its size.
TEST(AdamW, TheFirstStepIsTheSignOfTheGradient) {
  const Stream s = Stream::create({});
  const Tensor p = filled(s, {3}, 1.0f), m = filled(s, {3}, 0), v = filled(s, {3}, 0);
  ops::adamw_step(s, p, tensor_of<float>(s, {3}, {1e-3f, -7.0f, 1e4f}), m, v, adamw(0.125, 0.0, 1));
  EXPECT_NEAR(p.as<float>()[0], 0.875f, 2e-6f);
  EXPECT_NEAR(p.as<float>()[1], 1.125f, 1e-6f);
  EXPECT_NEAR(p.as<float>()[2], 0.875f, 1e-6f);
}

struct State {
  Tensor p, m, v;
};

TEST(AdamW, BitsDoNotDependOnThreadsInstructionSetOrCut) {
  const Stream s = Stream::create({});
  Random random;
  const std::int64_t n = 70001;
  const Tensor p = random_tensor(s, {n}, random), g = random_tensor(s, {n}, random);
  const Tensor m = random_tensor(s, {n}, random), v = filled(s, {n}, 0.5f);
  const auto copy = [&] { return State{clone(s, p), clone(s, m), clone(s, v)}; };
  const auto runs = with_thread_counts([&] {
    const State r = copy();
    ops::adamw_step(s, r.p, g, r.m, r.v, adamw(0.01, 0.1, 3));
    return r;
  });
  const auto check = [&](const State& r) {
    EXPECT_TRUE(same_bits(runs[0].p, r.p));
    EXPECT_TRUE(same_bits(runs[0].m, r.m));
    EXPECT_TRUE(same_bits(runs[0].v, r.v));
  };
  check(runs[1]);
  check(runs[2]);
  const ops::AdamWStep a = adamw(0.01, 0.1, 3);
  const kernels::AdamWArgs args{a.beta1,     a.one_minus_beta1, a.beta2, a.one_minus_beta2, a.decay,
                                a.step_size, a.inv_sqrt_bias2,  a.eps,   a.grad_scale,      0.0f};
  for (const auto kernel : SHOAL_ALL_ISAS(adamw_step))
    for (std::int64_t cut : {0, 1, 33, 40000}) {
      const State r = copy();
      for (auto [b, e] : {std::pair{std::int64_t{0}, cut}, std::pair{cut, n}})
        kernel({r.p.as<float>() + b, nullptr, kernels::Storage::f32}, g.as<float>() + b, r.m.as<float>() + b,
               r.v.as<float>() + b, e - b, args);
      check(r);
    }
}

TEST(Sgd, FollowsTheFormulaInEveryVariant) {
  const Stream s = Stream::create({});
  Random random;
  for (double momentum : {0.0, 0.9})
    for (bool nesterov : {false, true})
      for (std::int64_t n : odd_sizes()) {
        const Tensor p = random_tensor(s, {n}, random);
        const Tensor buf = momentum != 0 ? filled(s, {n}, NAN) : Tensor();  // the first step does not read it
        std::vector<double> p64 = values(p), b64(p64.size());
        for (int t = 0; t < 5; ++t) {
          const Tensor g = random_tensor(s, {n}, random);
          ops::sgd_step(s, p, g, buf,
                        {.lr = 0.1f,
                         .momentum = static_cast<float>(momentum),
                         .weight_decay = 0.01f,
                         .grad_scale = 0.5f,
                         .nesterov = nesterov,
                         .first = t == 0});
          for (std::int64_t i = 0; i < n; ++i) {
            const double gi = 0.5 * g.as<float>()[i] + 0.01 * p64[i];
            b64[i] = t == 0 ? gi : momentum * b64[i] + gi;
            p64[i] -= 0.1 * (momentum == 0 ? gi : nesterov ? gi + momentum * b64[i] : b64[i]);
          }
          EXPECT_TRUE(close(p, p64, {g}, 1e-6)) << "step " << t << ", momentum " << momentum;
        }
      }
}

TEST(Sgd, BitsDoNotDependOnThreadsInstructionSetOrCut) {
  const Stream s = Stream::create({});
  Random random;
  const std::int64_t n = 70001;
  const Tensor p = random_tensor(s, {n}, random), g = random_tensor(s, {n}, random),
               b = random_tensor(s, {n}, random);
  const auto runs = with_thread_counts([&] {
    const State r{clone(s, p), clone(s, b), {}};
    ops::sgd_step(s, r.p, g, r.m, {.lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f, .grad_scale = 0.5f});
    return r;
  });
  EXPECT_TRUE(same_bits(runs[0].p, runs[1].p));
  EXPECT_TRUE(same_bits(runs[0].p, runs[2].p));
  for (const auto kernel : SHOAL_ALL_ISAS(sgd_step)) {
    const State r{clone(s, p), clone(s, b), {}};
    for (auto [from, to] :
         {std::pair<std::int64_t, std::int64_t>{0, 33}, std::pair<std::int64_t, std::int64_t>{33, n}})
      kernel({r.p.as<float>() + from, nullptr, kernels::Storage::f32}, g.as<float>() + from,
             r.m.as<float>() + from, to - from, {0.1f, 0.9f, 0.01f, 0.5f, false, false});
    EXPECT_TRUE(same_bits(runs[0].p, r.p));
    EXPECT_TRUE(same_bits(runs[0].m, r.m));
  }
}

TEST(ChunkSumSquares, IsTheDocumentedSumToTheBit) {
  const Stream s = Stream::create({});
  Random random;
  for (std::int64_t chunks : {0, 1, 31, 33, 257}) {
    const Tensor x = random_tensor(s, {chunks * 256}, random);
    std::vector<double> want;
    for (std::int64_t c = 0; c < chunks; ++c) {
      double lane[16] = {};
      for (int i = 0; i < 256; ++i)
        lane[i % 16] += std::pow(static_cast<double>(x.as<float>()[c * 256 + i]), 2);
      for (int half = 8; half > 0; half /= 2)
        for (int j = 0; j < half; ++j) lane[j] += lane[j + half];
      want.push_back(lane[0]);
    }
    const Tensor expected = tensor_of(s, {chunks}, want);
    for (const Tensor& out : with_thread_counts([&] {
           const Tensor t = Tensor::empty({chunks}, DType::f64, s);
           ops::chunk_sum_squares(s, x, t);
           return t;
         }))
      EXPECT_TRUE(same_bits(out, expected));
    for (const auto kernel : SHOAL_ALL_ISAS(chunk_sum_squares)) {
      const Tensor out = Tensor::empty({chunks}, DType::f64, s);
      kernel(x.as<float>(), out.as<double>(), chunks);
      EXPECT_TRUE(same_bits(out, expected));
    }
  }
  // Squares far outside FP32's range are no trouble.
  const Tensor large = filled(s, {256}, 1e30f), out = Tensor::empty({1}, DType::f64, s);
  ops::chunk_sum_squares(s, large, out);
  EXPECT_EQ(out.as<double>()[0], 256.0 * (static_cast<double>(1e30f) * static_cast<double>(1e30f)));
}

TEST(Optimizer, RefusesShapes) {
  const Stream s = Stream::create({});
  const Tensor a = filled(s, {4}, 0), b = filled(s, {5}, 0), out = Tensor::empty({1}, DType::f64, s);
  EXPECT_THROW(ops::adamw_step(s, a, b, a, a, {}), ShapeError);
  EXPECT_THROW(ops::sgd_step(s, a, a, {}, {.lr = 1, .momentum = 0.9f, .weight_decay = 0, .grad_scale = 1}),
               ShapeError);
  EXPECT_THROW(ops::chunk_sum_squares(s, filled(s, {255}, 0), out), ShapeError);
}

}  // namespace
}  // namespace shoal
