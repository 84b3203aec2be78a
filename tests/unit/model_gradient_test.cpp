// Whole models' gradients against central differences of the loss, in random directions through all parameters.
#include <gtest/gtest.h>

#include "support/model.hpp"

namespace shoal {
namespace {

using models::ModelConfig;
using models::ModelType;

// The loss is FP32, summed here in FP64 over 24 tokens: with a step of 2^-7 of a unit direction its rounding (about
// 1e-6) gives an error of 1e-4 in a slope of order 1, and the third derivative less.
double slope_error(const ModelConfig& c, std::uint64_t seed) {
  test::TestModel t(c, seed);
  const nn::Microbatch mb = t.microbatch(2);
  const Tensor tokens = test::test_tokens(t.stream, mb.tokens(), c.vocab, seed + 1);
  const Tensor targets = test::test_tokens(t.stream, mb.tokens(), c.vocab, seed + 2, 5);
  const std::vector<nn::Parameter*> parameters = t.model->parameters();
  // Larger values than a fresh model's, so that every term matters.
  std::vector<std::vector<float>> start;
  std::uint32_t index = 0;
  for (nn::Parameter* p : parameters) {
    const RandomKey key{seed, Purpose::shuffle, 1, index++};
    for (std::int64_t i = 0; i < p->numel(); ++i)
      p->value.as<float>()[i] += static_cast<float>(0.1 * key.normal(i));
    start.emplace_back(p->value.as<float>(), p->value.as<float>() + p->numel());
  }
  nn::Saved saved;
  const auto loss = [&] {
    const double sum = test::total(t.model->forward(tokens, targets, saved, mb));
    return sum;
  };
  loss();
  t.model->backward(saved, mb);
  // The direction is the gradient itself plus noise of the same length, normalised.
  std::vector<std::vector<double>> direction;
  double squares = 0, noise_squares = 0;
  for (nn::Parameter* p : parameters) {
    std::vector<double> g(p->numel());
    for (const Tensor& part : p->grad)
      for (std::int64_t i = 0; i < p->numel(); ++i) g[i] += part.as<float>()[i];
    for (double v : g) squares += v * v;
    noise_squares += static_cast<double>(p->numel());
    direction.push_back(std::move(g));
  }
  double slope = 0, length = 0;
  for (std::size_t k = 0; k < direction.size(); ++k) {
    const RandomKey key{seed, Purpose::shuffle, 2, static_cast<std::uint32_t>(k)};
    for (std::size_t i = 0; i < direction[k].size(); ++i) {
      const double g = direction[k][i];
      direction[k][i] = g + key.normal(i) * std::sqrt(squares / noise_squares);
      slope += g * direction[k][i];
      length += direction[k][i] * direction[k][i];
    }
  }
  slope /= std::sqrt(length);
  const double step = 0x1p-7;
  double ends[2];
  for (int side = 0; side < 2; ++side) {
    for (std::size_t k = 0; k < direction.size(); ++k)
      for (std::size_t i = 0; i < direction[k].size(); ++i)
        parameters[k]->value.as<float>()[i] =
            static_cast<float>(start[k][i] + (side ? step : -step) * direction[k][i] / std::sqrt(length));
    ends[side] = loss();
  }
  const double difference = (ends[1] - ends[0]) / (2 * step);
  return std::abs(difference - slope) / std::abs(slope);
}

TEST(ModelGradient, AgreesWithDifferencesOfTheLoss) {
  for (ModelType type : {ModelType::gpt, ModelType::llama}) {
    for (std::int64_t tensor : {1, 3}) {
      ModelConfig c = test::tiny(type, tensor);
      if (type == ModelType::gpt) c.dropout = 0.1;
      for (std::uint64_t seed : {1, 2, 3})
        EXPECT_LE(slope_error(c, seed), 2e-3) << tensor << " pieces, seed " << seed;
    }
  }
}

}  // namespace
}  // namespace shoal
