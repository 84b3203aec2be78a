#include "shoal/ops/norm.hpp"

#include <gtest/gtest.h>

#include "kernels/cpu/norm.hpp"
#include "shoal/core/error.hpp"
#include "shoal/shard/tree.hpp"
#include "support/reference.hpp"

namespace shoal {
namespace {

using namespace test;
using Vec = std::vector<double>;

// Both norms and their gradients by the definitions, in FP64. RMS norm: centred false, no bias.
struct Reference {
  std::int64_t rows, hidden;
  bool centred;
  double eps;

  // (mean, rstd) of row r
  std::pair<double, double> statistics(const Vec& x, std::int64_t r) const {
    double mean = 0, square = 0;
    for (std::int64_t i = 0; i < hidden; ++i) mean += centred ? x[r * hidden + i] / hidden : 0.0;
    for (std::int64_t i = 0; i < hidden; ++i) square += std::pow(x[r * hidden + i] - mean, 2) / hidden;
    return {mean, 1.0 / std::sqrt(square + eps)};
  }
  Vec forward(const Vec& x, const Vec& w, const Vec& b) const {
    Vec y(x.size());
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto [mean, rstd] = statistics(x, r);
      for (std::int64_t i = 0; i < hidden; ++i)
        y[r * hidden + i] = (x[r * hidden + i] - mean) * rstd * w[i] + (centred ? b[i] : 0.0);
    }
    return y;
  }
  void backward(const Vec& dy, const Vec& x, const Vec& w, Vec& dx, Vec& dw, Vec& db) const {
    dx.assign(x.size(), 0), dw.assign(w.size(), 0), db.assign(w.size(), 0);
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto [mean, rstd] = statistics(x, r);
      double g_mean = 0, gx_mean = 0;
      for (std::int64_t i = 0; i < hidden; ++i) {
        const double d = dy[r * hidden + i], n = (x[r * hidden + i] - mean) * rstd;
        g_mean += centred ? d * w[i] / hidden : 0.0;
        gx_mean += d * w[i] * n / hidden;
        dw[i] += d * n;
        db[i] += d;
      }
      for (std::int64_t i = 0; i < hidden; ++i) {
        const double n = (x[r * hidden + i] - mean) * rstd;
        dx[r * hidden + i] = rstd * (dy[r * hidden + i] * w[i] - g_mean - n * gx_mean);
      }
    }
  }
};

TEST(NormReference, AgreesWithFiniteDifferences) {
  Random random;
  for (bool centred : {true, false}) {
    const Reference ref{3, 5, centred, 1e-5};
    Vec x(15), w(5), b(5), dy(15), dx, dw, db;
    for (Vec* v : {&x, &w, &b, &dy})
      for (double& e : *v) e = random.normal();
    ref.backward(dy, x, w, dx, dw, db);
    EXPECT_TRUE(gradient_matches([&](const Vec& v) { return dot(dy, ref.forward(v, w, b)); }, x, dx));
    EXPECT_TRUE(gradient_matches([&](const Vec& v) { return dot(dy, ref.forward(x, v, b)); }, w, dw));
    if (centred) {
      EXPECT_TRUE(gradient_matches([&](const Vec& v) { return dot(dy, ref.forward(x, w, v)); }, b, db));
    }
  }
}

struct Outputs {
  Tensor y, mean, rstd, dx, dweight, dbias;
};

struct Inputs {
  Tensor x, weight, bias, dy, dres;
  Inputs(const Stream& s, std::int64_t rows, std::int64_t hidden, Random& random)
      : x(random_tensor(s, {rows, hidden}, random, 2.0, 0.5)),
        weight(random_tensor(s, {hidden}, random, 0.3, 1.0)),
        bias(random_tensor(s, {hidden}, random)),
        dy(random_tensor(s, {rows, hidden}, random)),
        dres(random_tensor(s, {rows, hidden}, random)) {}
};

Outputs run(const Stream& s, const Inputs& in, bool centred, std::int64_t shards, bool residual) {
  const auto empty = [&](const Shape& shape) { return Tensor::empty(shape, DType::f32, s); };
  const std::int64_t rows = in.x.dim(0), hidden = in.x.dim(1);
  Outputs r{empty({rows, hidden}), empty({rows}),           empty({rows}),
            empty({rows, hidden}), empty({shards, hidden}), empty({shards, hidden})};
  const Tensor dres = residual ? in.dres : Tensor();
  if (centred) {
    ops::layer_norm_forward(s, in.x, in.weight, in.bias, 1e-5f, r.y, r.mean, r.rstd);
    ops::layer_norm_backward(s, in.dy, in.x, in.weight, r.mean, r.rstd, dres, r.dx, r.dweight, r.dbias,
                             false);
  } else {
    fill_zero(s, r.mean);
    fill_zero(s, r.dbias);
    ops::rms_norm_forward(s, in.x, in.weight, 1e-5f, r.y, r.rstd);
    ops::rms_norm_backward(s, in.dy, in.x, in.weight, r.rstd, dres, r.dx, r.dweight, false);
  }
  return r;
}

TEST(Norm, ForwardAndBackwardAgreeWithFp64AtOddSizes) {
  const Stream s = Stream::create({});
  Random random;
  for (bool centred : {true, false})
    for (std::int64_t rows : odd_sizes())
      for (std::int64_t hidden : odd_sizes()) {
        SCOPED_TRACE(testing::Message() << rows << " x " << hidden << (centred ? " layer" : " rms"));
        const Inputs in(s, rows, hidden, random);
        const Outputs r = run(s, in, centred, 1, false), with_residual = run(s, in, centred, 1, true);
        const Reference ref{rows, hidden, centred, 1e-5f};
        const Vec x = values(in.x), w = values(in.weight);
        EXPECT_TRUE(close(r.y, ref.forward(x, w, values(in.bias)), {in.x, in.weight, in.bias}));
        Vec dx, dw, db;
        ref.backward(values(in.dy), x, w, dx, dw, db);
        // One column: x minus its mean is 0, so the result is rounding times 1 / sqrt(eps).
        EXPECT_TRUE(close(r.dx, dx, {in.dy, in.x, in.weight}));
        EXPECT_TRUE(close(r.dweight.flat(), dw, {in.dy, in.x}));
        if (centred) {
          EXPECT_TRUE(close(r.dbias.flat(), db, {in.dy, in.x}));
        }
        const Vec dres = values(in.dres);
        for (std::size_t i = 0; i < dx.size(); ++i) dx[i] += dres[i];
        EXPECT_TRUE(close(with_residual.dx, dx, {in.dy, in.x, in.weight, in.dres}));
        EXPECT_TRUE(same_bits(with_residual.dweight, r.dweight));
      }
}

TEST(Norm, AConstantRowGivesTheBiasAndALargeMeanLosesNothingMore) {
  const Stream s = Stream::create({});
  Random random;
  const Inputs in(s, 1, 257, random);
  const Tensor x = filled(s, {1, 257}, 4.0f), y = Tensor::empty({1, 257}, DType::f32, s);
  const Tensor mean = Tensor::empty({1}, DType::f32, s), rstd = Tensor::empty({1}, DType::f32, s);
  ops::layer_norm_forward(s, x, in.weight, in.bias, 1e-5f, y, mean, rstd);
  EXPECT_EQ(mean.as<float>()[0], 4.0f);
  EXPECT_TRUE(same_bits(y.flat(), in.bias));
  // The variance is taken about the mean: E[x^2] - E[x]^2 would have no digit left here.
  for (int i = 0; i < 257; ++i) x.as<float>()[i] = 4096.0f + static_cast<float>(i % 2);
  ops::layer_norm_forward(s, x, in.weight, in.bias, 1e-5f, y, mean, rstd);
  const Reference ref{1, 257, true, 1e-5f};
  EXPECT_TRUE(close(y, ref.forward(values(x), values(in.weight), values(in.bias)), {in.weight}, 1e-4));
}

TEST(Norm, BitsDoNotDependOnThreadsOrInstructionSet) {
  const Stream s = Stream::create({});
  Random random;
  for (bool centred : {true, false}) {
    const Inputs in(s, 258, 257, random);
    const auto runs = with_thread_counts([&] { return run(s, in, centred, 2, true); });
    for (int i : {1, 2}) {
      EXPECT_TRUE(same_bits(runs[0].y, runs[i].y));
      EXPECT_TRUE(same_bits(runs[0].dx, runs[i].dx));
      EXPECT_TRUE(same_bits(runs[0].dweight, runs[i].dweight));
      EXPECT_TRUE(same_bits(runs[0].dbias, runs[i].dbias));
    }
    const Outputs& want = runs[0];
    const auto forwards = centred ? SHOAL_ALL_ISAS(layer_norm_forward) : SHOAL_ALL_ISAS(rms_norm_forward);
    const auto backwards = centred ? SHOAL_ALL_ISAS(layer_norm_backward) : SHOAL_ALL_ISAS(rms_norm_backward);
    for (std::size_t k = 0; k < forwards.size(); ++k) {
      const Outputs got{clone(s, in.x), clone(s, want.mean),    clone(s, want.rstd),
                        clone(s, in.x), clone(s, want.dweight), clone(s, want.dbias)};
      const auto f = [](const Tensor& t) { return t.as<float>(); };
      const Tensor partial = Tensor::empty({2 * kernels::norm_blocks(129), 2, 257}, DType::f32, s);
      forwards[k]({kernels::Storage::f32, kernels::Storage::f32, f(in.x), f(in.weight), f(in.bias), 1e-5f,
                   f(got.y), f(got.mean), f(got.rstd), 258, 257});
      backwards[k]({kernels::Storage::f32, kernels::Storage::f32, f(in.dy), f(in.x), f(in.weight),
                    f(got.mean), f(got.rstd), f(in.dres), f(got.dx), f(got.dweight), f(got.dbias), f(partial),
                    258, 257, 2, false});
      EXPECT_TRUE(same_bits(got.y, want.y));
      EXPECT_TRUE(same_bits(got.rstd, want.rstd));
      EXPECT_TRUE(same_bits(got.dx, want.dx));
      EXPECT_TRUE(same_bits(got.dweight, want.dweight));
      EXPECT_TRUE(same_bits(got.dbias, want.dbias));
    }
  }
}

// The documented order by plain loops: rows upward in a block of 64, blocks by the tree, for each token
// shard.
TEST(Norm, WeightGradientsAreSummedInBlocksOf64AndByTheTree) {
  const Stream s = Stream::create({});
  Random random;
  const std::int64_t shards = 3, shard_rows = 257, hidden = 33;
  const Inputs in(s, shards * shard_rows, hidden, random);
  const Outputs r = run(s, in, true, shards, true);
  const float *x = in.x.as<float>(), *dy = in.dy.as<float>();
  for (std::int64_t shard = 0; shard < shards; ++shard)
    for (std::int64_t i = 0; i < hidden; ++i) {
      std::vector<float> dw, db;
      for (std::int64_t row = 0; row < shard_rows; ++row) {
        if (row % 64 == 0) dw.push_back(0), db.push_back(0);
        const std::int64_t at = shard * shard_rows + row;
        const float n = (x[at * hidden + i] - r.mean.as<float>()[at]) * r.rstd.as<float>()[at];
        dw.back() = std::fma(dy[at * hidden + i], n, dw.back());
        db.back() += dy[at * hidden + i];
      }
      shard::tree_reduce(static_cast<std::int64_t>(dw.size()), [&](std::int64_t a, std::int64_t b) {
        dw[a] += dw[b];
        db[a] += db[b];
      });
      ASSERT_EQ(r.dweight.as<float>()[shard * hidden + i], dw[0]);
      ASSERT_EQ(r.dbias.as<float>()[shard * hidden + i], db[0]);
    }
}

TEST(Norm, AccumulatesAndWorksInPlace) {
  const Stream s = Stream::create({});
  Random random;
  const Inputs in(s, 66, 33, random);
  const Outputs once = run(s, in, true, 1, true);
  const Tensor dw = filled(s, {1, 33}, 1.0f), db = filled(s, {1, 33}, 2.0f), dx = clone(s, in.dres);
  ops::layer_norm_backward(s, in.dy, in.x, in.weight, once.mean, once.rstd, dx, dx, dw, db, true);
  EXPECT_TRUE(same_bits(dx, once.dx));
  for (int i = 0; i < 33; ++i) {
    EXPECT_EQ(dw.as<float>()[i], 1.0f + once.dweight.as<float>()[i]);
    EXPECT_EQ(db.as<float>()[i], 2.0f + once.dbias.as<float>()[i]);
  }
  const Tensor dy = clone(s, in.dy);
  ops::layer_norm_backward(s, dy, in.x, in.weight, once.mean, once.rstd, in.dres, dy, dw, db, false);
  EXPECT_TRUE(same_bits(dy, once.dx));
  EXPECT_TRUE(same_bits(dw, once.dweight));
}

TEST(Norm, RefusesWhatDoesNotFit) {
  const Stream s = Stream::create({});
  Random random;
  const Inputs in(s, 4, 3, random);
  EXPECT_THROW(run(s, in, true, 3, false), ShapeError);
  EXPECT_THROW(run(s, in, false, 0, false), ShapeError);
  EXPECT_THROW(ops::rms_norm_forward(s, in.x, filled(s, {4}, 0), 1e-5f, in.x, filled(s, {4}, 0)), ShapeError);
}

}  // namespace
}  // namespace shoal
