// Lion, the directions of LAMB and Muon, Adafactor, averages, clipping by value, and values of 16 bits beside FP32 ones:
// the same bits on every instruction set and wherever the range is cut.
#include <gtest/gtest.h>

#include <array>

#include "kernels/cpu/adafactor.hpp"
#include "kernels/cpu/optimizer.hpp"
#include "shoal/core/error.hpp"
#include "shoal/ops/adafactor.hpp"
#include "shoal/ops/cast.hpp"
#include "shoal/ops/optimizer.hpp"
#include "support/reference.hpp"

namespace shoal {
namespace {

using namespace test;
using kernels::Storage;

constexpr std::int64_t n = 9001;
constexpr DType types[] = {DType::f32, DType::bf16, DType::f16};
constexpr Storage codes[] = {Storage::f32, Storage::bf16, Storage::f16};

// Four arrays of n, the last not negative, with the odd ends of FP32 in the second; and one of a narrower type.
struct Arrays {
  std::array<Tensor, 4> x;
  Tensor narrow;
  Arrays(const Stream& s, Random& random, DType type) : narrow(Tensor::zeros({n}, type, s)) {
    for (Tensor& t : x) t = random_tensor(s, {n}, random);
    for (std::int64_t i = 0; i < n; ++i) x[3].as<float>()[i] *= x[3].as<float>()[i];
    const float odd[] = {0.0f, -0.0f, 1e-42f, 3e38f, -3e38f};
    std::copy_n(odd, 5, x[1].as<float>() + n - 5);
    ops::convert(s, x[0], narrow);
    s.synchronize();
  }
  Arrays copy(const Stream& s) const {
    Arrays a = *this;
    for (Tensor& t : a.x) t = clone(s, t);
    a.narrow = clone(s, narrow);
    return a;
  }
  float* at(int i, std::int64_t e) const { return x[i].as<float>() + e; }
  char* narrow_at(std::int64_t e) const {
    return static_cast<char*>(narrow.data()) + e * size_of(narrow.dtype());
  }
};

// call(kernel, arrays, code, first, count) for every instruction set, cut at several places.
template <class Kernels, class Call>
void expect_same_bits(const Kernels& kernels, const Call& call) {
  const Stream s = Stream::create({});
  Random random;
  for (int t = 0; t < 3; ++t) {
    const Arrays start(s, random, types[t]);
    const Arrays expected = start.copy(s);
    call(kernels[0], expected, codes[t], 0, n);
    for (const auto kernel : kernels)
      for (const std::int64_t cut : {0, 1, 33, 4999}) {
        const Arrays got = start.copy(s);
        call(kernel, got, codes[t], 0, cut);
        call(kernel, got, codes[t], cut, n - cut);
        for (int i = 0; i < 4; ++i) EXPECT_TRUE(same_bits(got.x[i], expected.x[i])) << "array " << i;
        EXPECT_TRUE(same_bits(got.narrow, expected.narrow)) << name(types[t]);
      }
  }
}

const kernels::AdamWArgs adam{0.9f, 0.1f, 0.99f, 0.01f, 0.999f, 0.01f, 1.5f, 1e-8f, 0.5f, 0.1f};

TEST(OptimizerBits, AdamWithCoupledDecayAndNarrowValues) {
  expect_same_bits(
      SHOAL_ALL_ISAS(adamw_step), [](auto kernel, const Arrays& a, Storage type, auto b, auto count) {
        kernel({a.at(0, b), a.narrow_at(b), type}, a.at(1, b), a.at(2, b), a.at(3, b), count, adam);
      });
}
TEST(OptimizerBits, Lion) {
  expect_same_bits(SHOAL_ALL_ISAS(lion_step),
                   [](auto kernel, const Arrays& a, Storage type, auto b, auto count) {
                     kernel({a.at(0, b), a.narrow_at(b), type}, a.at(1, b), a.at(2, b), count,
                            {0.9f, 0.1f, 0.99f, 0.01f, 0.999f, 0.01f, 0.5f});
                   });
}
TEST(OptimizerBits, ScaledStep) {
  expect_same_bits(SHOAL_ALL_ISAS(scaled_step),
                   [](auto kernel, const Arrays& a, Storage type, auto b, auto count) {
                     kernel({a.at(0, b), a.narrow_at(b), type}, a.at(1, b), count, 0.999f, 0.01f);
                   });
}
TEST(OptimizerBits, AdamDirection) {
  expect_same_bits(SHOAL_ALL_ISAS(adam_direction),
                   [](auto kernel, const Arrays& a, Storage type, auto b, auto count) {
                     kernel(a.narrow_at(b), type, a.at(1, b), a.at(2, b), a.at(3, b), count, adam);
                   });
}
TEST(OptimizerBits, MomentumDirection) {
  for (const bool nesterov : {false, true})
    expect_same_bits(SHOAL_ALL_ISAS(momentum_direction),
                     [&](auto kernel, const Arrays& a, Storage, auto b, auto count) {
                       kernel(a.at(1, b), a.at(2, b), count, 0.95f, 0.05f, 0.5f, nesterov);
                     });
}
TEST(OptimizerBits, AverageStep) {
  expect_same_bits(SHOAL_ALL_ISAS(average_step),
                   [](auto kernel, const Arrays& a, Storage type, auto b, auto count) {
                     kernel(a.at(1, b), a.narrow_at(b), type, count, 0.99f, 0.01f);
                   });
}
TEST(OptimizerBits, ScaleClamp) {
  expect_same_bits(SHOAL_ALL_ISAS(scale_clamp), [](auto kernel, const Arrays& a, Storage, auto b,
                                                   auto count) { kernel(a.at(1, b), count, 0.5f, 0.25f); });
  for (const auto kernel : SHOAL_ALL_ISAS(scale_clamp)) {
    float x[] = {NAN, INFINITY, -INFINITY, 3e38f, 0.1f};
    kernel(x, 5, 0.5f, 0.25f);
    EXPECT_TRUE(std::isnan(x[0]));
    EXPECT_EQ(x[1], 0.25f);
    EXPECT_EQ(x[2], -0.25f);
    EXPECT_EQ(x[3], 0.25f);
    EXPECT_EQ(x[4], 0.05f);
  }
}
TEST(OptimizerBits, AdafactorVector) {
  expect_same_bits(SHOAL_ALL_ISAS(adafactor_vector),
                   [](auto kernel, const Arrays& a, Storage, auto b, auto count) {
                     kernel(a.at(1, b), count, a.at(3, b), {0.5f, 0.7, 0.3, 1e-30});
                   });
}

TEST(OptimizerBits, AdafactorMatrix) {
  const Stream s = Stream::create({});
  Random random;
  const std::int64_t shapes[][2] = {{1, 1}, {1, 300}, {300, 1}, {129, 130}, {37, 70}, {0, 5}};
  for (const auto& [rows, columns] : shapes) {
    const Tensor g = random_tensor(s, {rows, columns}, random), r = filled(s, {rows}, 2),
                 c = filled(s, {columns}, 3);
    const auto by_op = with_thread_counts([&] {
      const std::array<Tensor, 3> x{clone(s, g), clone(s, r), clone(s, c)};
      ops::adafactor_matrix(s, x[0], x[1], x[2], {0.5f, 0.7, 0.3, 1e-30});
      return x;
    });
    std::vector<std::array<Tensor, 3>> all(by_op.begin(), by_op.end());
    for (const auto kernel : SHOAL_ALL_ISAS(adafactor_matrix)) {
      all.push_back({clone(s, g), clone(s, r), clone(s, c)});
      std::vector<double> sums(static_cast<std::size_t>(rows + columns));
      std::vector<float> factors(sums.size());
      kernel(all.back()[0].as<float>(), rows, columns, all.back()[1].as<float>(), all.back()[2].as<float>(),
             sums.data(), factors.data(), {0.5f, 0.7, 0.3, 1e-30});
    }
    for (const auto& x : all)
      for (int i = 0; i < 3; ++i)
        EXPECT_TRUE(same_bits(x[i], all[0][i])) << rows << " x " << columns << ", " << i;
  }
}

TEST(OptimizerOps, RefuseWhatDoesNotFit) {
  const Stream s = Stream::create({});
  const Tensor x = filled(s, {4}, 0), y = filled(s, {5}, 0), half = Tensor::zeros({4}, DType::bf16, s),
               other = Tensor::zeros({5}, DType::bf16, s);
  EXPECT_THROW(ops::lion_step(s, x, x, y, {}), ShapeError);
  EXPECT_THROW(ops::lion_step(s, half, x, x, {}), ShapeError);
  EXPECT_THROW(ops::adamw_step(s, x, x, x, x, {}, x), ShapeError);  // narrow of FP32
  EXPECT_THROW(ops::adamw_step(s, x, x, x, x, {}, other), ShapeError);
  EXPECT_THROW(ops::scaled_step(s, x, half, 1, 1), ShapeError);
  EXPECT_THROW(ops::adam_direction(s, half, y, x, x, {}), ShapeError);
  EXPECT_THROW(ops::momentum_direction(s, x, y, 0.9f, 0.1f, 1, true), ShapeError);
  EXPECT_THROW(ops::average_step(s, y, half, 0.9f, 0.1f), ShapeError);
  EXPECT_THROW(ops::scale_clamp_(s, half, 1, 1), ShapeError);
  EXPECT_THROW(ops::adafactor_vector(s, x, y, {}), ShapeError);
  EXPECT_THROW(ops::adafactor_matrix(s, x, x, x, {}), ShapeError);
  EXPECT_THROW(ops::adafactor_matrix(s, x.view({2, 2}), x, x, {}), ShapeError);
}

}  // namespace
}  // namespace shoal
