#include "shoal/ops/cross_entropy.hpp"

#include <gtest/gtest.h>

#include "kernels/cpu/cross_entropy.hpp"
#include "shoal/core/error.hpp"
#include "shoal/shard/tree.hpp"
#include "support/reference.hpp"

namespace shoal {
namespace {

using namespace test;
using Vec = std::vector<double>;

constexpr float scale = 0.125f;

// -log softmax(x)[target] over the first `vocab` elements of a row cut in pieces; and its gradient.
double loss64(const Vec& x, std::int64_t vocab, std::int64_t target, Vec* gradient = nullptr) {
  double top = -INFINITY, sum = 0;
  for (std::int64_t i = 0; i < vocab; ++i) top = std::max(top, x[i]);
  for (std::int64_t i = 0; i < vocab; ++i) sum += std::exp(x[i] - top);
  if (gradient != nullptr) {
    gradient->assign(x.size(), 0.0);
    for (std::int64_t i = 0; i < vocab; ++i) (*gradient)[i] = std::exp(x[i] - top) / sum - (i == target);
  }
  return std::log(sum) + top - x[target];
}

TEST(CrossEntropyReference, AgreesWithFiniteDifferences) {
  Random random;
  Vec x(9), gradient;
  for (double& e : x) e = random.normal(3.0);
  loss64(x, 7, 2, &gradient);
  EXPECT_TRUE(gradient_matches([](const Vec& v) { return loss64(v, 7, 2); }, x, gradient));
}

struct Case {
  Tensor logits, targets;
  std::int64_t vocab;
};

// One row in five is ignored; padding holds what must not matter.
Case make(const Stream& s, std::int64_t pieces, std::int64_t rows, std::int64_t vocab, Random& random) {
  const std::int64_t width = (vocab + pieces - 1) / pieces;
  Case c{random_tensor(s, {pieces, rows, width}, random, 4.0), Tensor::empty({rows}, DType::i32, s), vocab};
  for (std::int64_t r = 0; r < rows; ++r) {
    c.targets.as<std::int32_t>()[r] = random.integer(0, 4) == 0
                                          ? ops::ignored_token
                                          : static_cast<std::int32_t>(random.integer(0, vocab - 1));
    for (std::int64_t id = vocab; id < pieces * width; ++id)
      c.logits.as<float>()[(id / width * rows + r) * width + id % width] = id % 2 ? INFINITY : NAN;
  }
  return c;
}

TEST(CrossEntropy, AgreesWithFp64AtOddSizesAndPieces) {
  const Stream s = Stream::create({});
  Random random;
  for (std::int64_t pieces : {1, 2, 3, 5})
    for (std::int64_t rows : odd_sizes())
      for (std::int64_t vocab : {1, 31, 33, 257, 5003}) {
        if (rows * vocab > 300000) continue;
        SCOPED_TRACE(testing::Message() << pieces << " pieces, " << rows << " rows, vocabulary " << vocab);
        const Case c = make(s, pieces, rows, vocab, random);
        const std::int64_t width = c.logits.dim(2);
        const Tensor loss = Tensor::empty({rows}, DType::f32, s),
                     only_loss = Tensor::empty({rows}, DType::f32, s);
        const Tensor dlogits = Tensor::empty(c.logits.shape(), DType::f32, s), in_place = clone(s, c.logits);
        ops::cross_entropy(s, c.logits, c.targets, vocab, loss, dlogits, scale);
        ops::cross_entropy(s, c.logits, c.targets, vocab, only_loss, {}, scale);
        EXPECT_TRUE(same_bits(loss, only_loss));
        ops::cross_entropy(s, in_place, c.targets, vocab, only_loss, in_place, scale);
        EXPECT_TRUE(same_bits(loss, only_loss));
        EXPECT_TRUE(same_bits(dlogits, in_place));
        Vec want_loss, want_gradient(c.logits.numel());
        for (std::int64_t r = 0; r < rows; ++r) {
          const auto at = [&](std::int64_t id) { return (id / width * rows + r) * width + id % width; };
          const std::int32_t target = c.targets.as<std::int32_t>()[r];
          Vec x, gradient;
          for (std::int64_t id = 0; id < vocab; ++id) x.push_back(c.logits.as<float>()[at(id)]);
          want_loss.push_back(target == ops::ignored_token ? 0.0 : loss64(x, vocab, target, &gradient));
          if (target != ops::ignored_token)
            for (std::int64_t id = 0; id < vocab; ++id) want_gradient[at(id)] = scale * gradient[id];
          for (std::int64_t id = vocab; id < pieces * width; ++id) {
            ASSERT_EQ(dlogits.as<float>()[at(id)], 0.0f);
          }
        }
        EXPECT_TRUE(close(loss, want_loss, {}, 1e-5));
        EXPECT_TRUE(close(dlogits, want_gradient, {filled(s, {rows}, scale)}, 1e-6));
      }
}

TEST(CrossEntropy, AVocabularyOf50257) {
  const Stream s = Stream::create({});
  Random random;
  const Case c = make(s, 4, 3, 50257, random);
  c.targets.as<std::int32_t>()[0] = 50256;
  const Tensor loss = Tensor::empty({3}, DType::f32, s), d = clone(s, c.logits);
  ops::cross_entropy(s, d, c.targets, 50257, loss, d, 1.0f);
  Vec x, gradient;
  for (std::int64_t id = 0; id < 50257; ++id)
    x.push_back(c.logits.as<float>()[id / 12565 * 3 * 12565 + id % 12565]);
  EXPECT_NEAR(loss.as<float>()[0], loss64(x, 50257, 50256, &gradient), 1e-5);
  double total = 0;
  for (std::int64_t id = 0; id < 50257; ++id) {
    const float got = d.as<float>()[id / 12565 * 3 * 12565 + id % 12565];
    // x - maximum is rounded: up to 2e-6 at a distance of 32, which is the relative error of its exponential.
    ASSERT_NEAR(got, gradient[id], 4e-6 * (id == 50256 ? 1.0 : gradient[id])) << id;
    total += got;
  }
  EXPECT_NEAR(total, 0.0, 1e-5);
}

TEST(CrossEntropy, ExtremeLogitsStayFiniteAndNaNIsSeen) {
  const Stream s = Stream::create({});
  const Tensor x = tensor_of<float>(s, {1, 3, 4}, {1e30f, 0, 0, 0, -INFINITY, 2, 2, -INFINITY, 0, NAN, 0, 0});
  const Tensor targets = tensor_of<std::int32_t>(s, {3}, {0, 1, 0});
  const Tensor loss = Tensor::empty({3}, DType::f32, s), d = Tensor::empty(x.shape(), DType::f32, s);
  ops::cross_entropy(s, x, targets, 4, loss, d, 1.0f);
  EXPECT_EQ(loss.as<float>()[0], 0.0f);
  EXPECT_FLOAT_EQ(loss.as<float>()[1], std::log(2.0f));
  EXPECT_TRUE(std::isnan(loss.as<float>()[2]));
  EXPECT_TRUE(same_bits(d.flat().slice(0, 8), tensor_of<float>(s, {8}, {0, 0, 0, 0, 0, -0.5f, 0.5f, 0})));
}

TEST(CrossEntropy, BitsDoNotDependOnThreadsInstructionSetOrRowsAtATime) {
  const Stream s = Stream::create({});
  Random random;
  const std::int64_t rows = 67, vocab = 2501;
  const Case c = make(s, 2, rows, vocab, random);
  struct Result {
    Tensor loss, d;
  };
  const auto result = [&](std::int64_t n) {
    return Result{Tensor::empty({n}, DType::f32, s), Tensor::empty({2, n, c.logits.dim(2)}, DType::f32, s)};
  };
  const auto runs = with_thread_counts([&] {
    const Result r = result(rows);
    ops::cross_entropy(s, c.logits, c.targets, vocab, r.loss, r.d, scale);
    return r;
  });
  for (int i : {1, 2}) {
    EXPECT_TRUE(same_bits(runs[0].loss, runs[i].loss));
    EXPECT_TRUE(same_bits(runs[0].d, runs[i].d));
  }
  for (const auto kernel : SHOAL_ALL_ISAS(cross_entropy)) {
    const Result r = result(rows);
    kernel({kernels::Storage::f32, c.logits.as<float>(), c.targets.as<std::int32_t>(), r.loss.as<float>(),
            r.d.as<float>(), 2, rows, c.logits.dim(2), vocab, ops::ignored_token, scale});
    EXPECT_TRUE(same_bits(runs[0].loss, r.loss));
    EXPECT_TRUE(same_bits(runs[0].d, r.d));
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    const Result r = result(1);
    const Tensor one = Tensor::empty(r.d.shape(), DType::f32, s);
    for (int p : {0, 1}) copy(s, c.logits.select(p).slice(row, row + 1), one.select(p));
    ops::cross_entropy(s, one, c.targets.slice(row, row + 1), vocab, r.loss, r.d, scale);
    ASSERT_TRUE(same_bits(r.loss, runs[0].loss.slice(row, row + 1)));
    for (int p : {0, 1}) ASSERT_TRUE(same_bits(r.d.select(p), runs[0].d.select(p).slice(row, row + 1)));
  }
}

TEST(CrossEntropy, NamesTheFirstBadTarget) {
  const Stream s = Stream::create({});
  const Tensor x = filled(s, {1, 3, 8}, 0.0f), loss = filled(s, {3}, 7.0f);
  for (std::int32_t bad : {5, 7, 8, -2}) {
    try {
      ops::cross_entropy(s, x, tensor_of<std::int32_t>(s, {3}, {4, bad, 99}), 5, loss, x, 1.0f);
      FAIL() << "no error";
    } catch (const ShapeError& e) {
      EXPECT_EQ(std::string(e.what()),
                "cross_entropy: target 1 has id " + std::to_string(bad) + ", outside the vocabulary [0, 5)");
    }
  }
  EXPECT_TRUE(same_bits(loss, filled(s, {3}, 7.0f)));
  const Tensor targets = tensor_of<std::int32_t>(s, {3}, {0, 0, 0});
  EXPECT_THROW(ops::cross_entropy(s, x, targets, 9, loss, x, 1.0f), ShapeError);
  EXPECT_THROW(ops::cross_entropy(s, x, targets, 0, loss, x, 1.0f), ShapeError);
}

TEST(LossSum, IsFp64InBlocksOf64AndByTheTree) {
  const Stream s = Stream::create({});
  Random random;
  for (std::int64_t n : {0, 1, 31, 33, 64, 65, 257, 64 * 7 + 1, 5000}) {
    const Tensor x = random_tensor(s, {n}, random), sum = Tensor::empty({1}, DType::f64, s);
    Vec blocks;
    for (std::int64_t i = 0; i < n; ++i) {
      if (i % 64 == 0) blocks.push_back(0.0);
      blocks.back() += x.as<float>()[i];
    }
    shard::tree_reduce(static_cast<std::int64_t>(blocks.size()),
                       [&](std::int64_t a, std::int64_t b) { blocks[a] += blocks[b]; });
    for (const Tensor& got : with_thread_counts([&] {
           ops::loss_sum(s, x, sum);
           return clone(s, sum);
         }))
      EXPECT_EQ(*got.as<double>(), n == 0 ? 0.0 : blocks[0]) << n;
    for (const auto kernel : SHOAL_ALL_ISAS(sum_f64)) EXPECT_EQ(kernel(x.as<float>(), n), *sum.as<double>());
  }
}

}  // namespace
}  // namespace shoal
