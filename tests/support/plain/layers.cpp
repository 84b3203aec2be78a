#include "support/plain/layers.hpp"

#include <cmath>

#include "shoal/ops/cross_entropy.hpp"

namespace shoal::plain {

Vec norm_forward(const Vec& x, std::int64_t hidden, const float* weight, const float* bias, float eps,
                 NormSaved& saved) {
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / hidden;
  const float count = static_cast<float>(hidden);
  Vec y(x.size());
  saved = {x, Vec(rows, 0.0f), Vec(rows)};
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = &x[r * hidden];
    if (bias) saved.mean[r] = lanes(hidden, [&](float s, std::int64_t i) { return s + in[i]; }) / count;
    const float mean = saved.mean[r];
    const float squares = lanes(hidden, [&](float s, std::int64_t i) {
      const float d = bias ? in[i] - mean : in[i];
      return std::fma(d, d, s);
    });
    const float rstd = saved.rstd[r] = 1.0f / std::sqrt(squares / count + eps);
    for (std::int64_t i = 0; i < hidden; ++i)
      y[r * hidden + i] =
          bias ? std::fma((in[i] - mean) * rstd, weight[i], bias[i]) : (in[i] * rstd) * weight[i];
  }
  return y;
}

Vec norm_backward(const Vec& dy, const NormSaved& saved, std::int64_t hidden, const float* weight,
                  const Vec* dres, std::vector<Vec>& dweight, std::vector<Vec>* dbias, bool accumulate) {
  const std::int64_t rows = static_cast<std::int64_t>(dy.size()) / hidden;
  const std::int64_t shards = static_cast<std::int64_t>(dweight.size()), shard_rows = rows / shards;
  const float count = static_cast<float>(hidden);
  const bool centred = dbias != nullptr;
  Vec dx(dy.size());
  const auto normal = [&](std::int64_t r, std::int64_t i) {
    const float x = saved.x[r * hidden + i];
    return (centred ? x - saved.mean[r] : x) * saved.rstd[r];
  };
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* g = &dy[r * hidden];
    const float a =
        centred ? lanes(hidden, [&](float s, std::int64_t i) { return s + g[i] * weight[i]; }) / count : 0.0f;
    const float c =
        lanes(hidden, [&](float s, std::int64_t i) { return std::fma(g[i] * weight[i], normal(r, i), s); }) /
        count;
    for (std::int64_t i = 0; i < hidden; ++i) {
      const float gw = g[i] * weight[i];
      const float v = std::fma(normal(r, i), -c, centred ? gw - a : gw);
      dx[r * hidden + i] = dres ? std::fma(v, saved.rstd[r], (*dres)[r * hidden + i]) : v * saved.rstd[r];
    }
  }
  for (std::int64_t s = 0; s < shards; ++s)
    for (std::int64_t i = 0; i < hidden; ++i) {
      std::vector<float> weights, biases;  // a leaf a block of 64 rows
      for (std::int64_t first = s * shard_rows; first < (s + 1) * shard_rows; first += 64) {
        float w = 0.0f, b = 0.0f;
        for (std::int64_t r = first; r < std::min(first + 64, (s + 1) * shard_rows); ++r) {
          w = std::fma(dy[r * hidden + i], normal(r, i), w);
          b = b + dy[r * hidden + i];
        }
        weights.push_back(w);
        biases.push_back(b);
      }
      const float w = tree_of(weights), b = tree_of(biases);
      dweight[s][i] = accumulate ? dweight[s][i] + w : w;
      if (dbias) (*dbias)[s][i] = accumulate ? (*dbias)[s][i] + b : b;
    }
  return dx;
}

void bias_gradient(const float* dy, std::int64_t rows, std::int64_t width, float* db, bool accumulate) {
  for (std::int64_t i = 0; i < width; ++i) {
    std::vector<float> leaves;
    for (std::int64_t first = 0; first < rows; first += 64) {
      float sum = dy[first * width + i];
      for (std::int64_t r = first + 1; r < std::min(first + 64, rows); ++r) sum = sum + dy[r * width + i];
      leaves.push_back(sum);
    }
    const float sum = tree_of(leaves);
    db[i] = accumulate ? db[i] + sum : sum;
  }
}

void rotate(Heads x, std::int64_t heads, std::int64_t seq, double theta, bool backward) {
  const std::int64_t half = x.dim / 2;
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t t = 0; t < x.tokens; ++t)
      for (std::int64_t i = 0; i < half; ++i) {
        const double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(x.dim));
        const double angle = static_cast<double>(t % seq) * frequency;
        const float c = static_cast<float>(std::cos(angle)), sine = static_cast<float>(std::sin(angle));
        const float s = backward ? -sine : sine;
        float &low = x.at(h, t, i), &high = x.at(h, t, i + half);
        const float l = c * low - high * s, u = c * high + low * s;
        low = l;
        high = u;
      }
}

Vec cross_entropy(Vec& logits, std::int64_t pieces, std::int64_t rows, std::int64_t width, std::int64_t vocab,
                  const std::vector<std::int32_t>& targets, float scale) {
  Vec loss(rows, 0.0f);
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto logit = [&](std::int64_t id) -> float& {
      return logits[(id / width * rows + r) * width + id % width];
    };
    if (targets[r] == ops::ignored_token) {
      for (std::int64_t id = 0; id < pieces * width; ++id) logit(id) = 0.0f;
      continue;
    }
    const float target = logit(targets[r]);
    float top = logit(0);
    for (std::int64_t id = 1; id < vocab; ++id) top = std::max(top, logit(id));
    std::vector<float> of_pieces;
    for (std::int64_t p = 0; p < pieces; ++p) {
      const std::int64_t n = std::max<std::int64_t>(0, std::min(width, vocab - p * width));
      std::vector<float> blocks;
      for (std::int64_t first = 0; first < n; first += 1024)
        blocks.push_back(lanes(std::min<std::int64_t>(1024, n - first), [&](float s, std::int64_t i) {
          return s + exp(logit(p * width + first + i) - top);
        }));
      of_pieces.push_back(tree_of(blocks));
    }
    const float sum = tree_of(of_pieces);
    loss[r] = std::log(sum) + (top - target);
    const float factor = scale / sum;
    for (std::int64_t id = 0; id < pieces * width; ++id)
      logit(id) = id < vocab ? exp(logit(id) - top) * factor : 0.0f;
    logit(targets[r]) = logit(targets[r]) - scale;
  }
  return loss;
}

}  // namespace shoal::plain
