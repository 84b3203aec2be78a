#include <gtest/gtest.h>

#include <algorithm>

#include "shoal/core/error.hpp"
#include "support/expect_message.hpp"
#include "support/model.hpp"

namespace shoal {
namespace {

using models::generate;
using models::ModelType;
using models::SampleOptions;
using test::TestModel;
using test::tiny;

std::vector<std::int32_t> ids(const Tensor& t) {
  return {t.as<std::int32_t>(), t.as<std::int32_t>() + t.numel()};
}

// A model far from uniform.
void sharpen(TestModel& t) {
  for (nn::Parameter* p : t.model->parameters())
    if (p->kind != nn::ParameterKind::norm)
      for (std::int64_t i = 0; i < p->numel(); ++i) p->value.as<float>()[i] *= 10;
}

TEST(Generate, DecoderGivesTheLogitsOfTheWholeSequence) {
  for (ModelType type : {ModelType::gpt, ModelType::llama}) {
    for (std::int64_t tensor : {1, 2, 3}) {
      TestModel t(tiny(type, tensor));
      sharpen(t);
      const Tensor tokens = test::test_tokens(t.stream, 12, 101, 1);
      const Tensor whole = t.model->logits(tokens, t.microbatch(1));
      const auto decoder = t.model->decoder(t.stream);
      for (int pass = 0; pass < 2; ++pass, decoder->restart()) {
        for (std::int64_t i = 0; i < 12; ++i) {
          EXPECT_EQ(decoder->position(), i);
          const Tensor one = decoder->step(tokens.as<std::int32_t>()[i]);
          ASSERT_EQ(one.shape(), (Shape{101}));
          for (std::int64_t v = 0; v < 101; ++v)
            ASSERT_NEAR(one.as<float>()[v], whole.as<float>()[i * 101 + v], 2e-4) << "position " << i;
        }
        EXPECT_MESSAGE(decoder->step(0), ShapeError, "given token 13: the model takes 12");
      }
      EXPECT_MESSAGE(decoder->step(101), ShapeError, "token 101 at position 0");
    }
  }
}

TEST(Generate, TemperatureZeroTakesTheMostLikelyAndTheWindowSlides) {
  TestModel t(tiny(ModelType::gpt));
  sharpen(t);
  std::vector<std::int32_t> text = {5, 6, 7};
  SampleOptions o;
  o.count = 40;
  o.temperature = 0;
  const std::vector<std::int32_t> got = generate(*t.model, text, o, t.stream);
  ASSERT_EQ(got.size(), 40u);
  std::int64_t begin = 0;
  for (std::int32_t next : got) {
    if (std::ssize(text) - begin > 12) begin = std::ssize(text) - 6;
    nn::Microbatch mb = t.microbatch(1);
    mb.seq = std::ssize(text) - begin;
    const Tensor window = Tensor::empty({mb.seq}, DType::i32, t.stream);
    std::copy(text.begin() + begin, text.end(), window.as<std::int32_t>());
    const float* last = t.model->logits(window, mb).slice(mb.seq - 1, mb.seq).as<float>();
    EXPECT_GE(last[next], *std::max_element(last, last + 101) - 1e-3f);
    text.push_back(next);
  }
}

TEST(Generate, DrawsFollowTheSoftmaxAndTheSeed) {
  TestModel t(tiny(ModelType::llama));
  sharpen(t);
  SampleOptions o;
  o.count = 1;
  o.temperature = 2.0;
  const Tensor prompt = test::test_tokens(t.stream, 4, 101, 1);
  nn::Microbatch mb = t.microbatch(1);
  mb.seq = 4;
  const Tensor logits = t.model->logits(prompt, mb);
  const float* last = logits.as<float>() + 3 * 101;
  double sum = 0;
  for (int v = 0; v < 101; ++v) sum += std::exp(last[v] / 2.0);
  const auto best = static_cast<std::int32_t>(std::max_element(last, last + 101) - last);
  const double p = std::exp(last[best] / 2.0) / sum;
  int hits = 0;
  const int n = 400;
  for (int i = 0; i < n; ++i) {
    o.seed = i;
    const std::int32_t token = generate(*t.model, ids(prompt), o, t.stream)[0];
    EXPECT_EQ(generate(*t.model, ids(prompt), o, t.stream)[0], token);
    hits += token == best;
  }
  EXPECT_NEAR(static_cast<double>(hits) / n, p, 4 * std::sqrt(p * (1 - p) / n) + 1e-9);
  o.top_k = 1;
  o.seed = 17;
  EXPECT_EQ(generate(*t.model, ids(prompt), o, t.stream)[0], best);
}

TEST(Generate, PromptsLongerThanTheModelAreCut) {
  TestModel t(tiny(ModelType::gpt));
  const Tensor tokens = test::test_tokens(t.stream, 30, 101, 1);
  std::vector<std::int32_t> all = ids(tokens);
  SampleOptions o;
  o.count = 1;
  EXPECT_EQ(generate(*t.model, all, o, t.stream),
            generate(*t.model, {all.end() - 12, all.end()}, o, t.stream));
}

TEST(Generate, BadInputIsNamed) {
  TestModel t(tiny(ModelType::gpt));
  SampleOptions o;
  EXPECT_MESSAGE(generate(*t.model, {}, o, t.stream), ConfigError, "an empty prompt");
  EXPECT_MESSAGE(generate(*t.model, {3, 101}, o, t.stream), ConfigError,
                 "token 1 of the prompt is 101: the vocabulary has 101");
  o.count = -1;
  EXPECT_MESSAGE(generate(*t.model, {3}, o, t.stream), ConfigError, "count = -1");
  o = {};
  o.temperature = -1;
  EXPECT_MESSAGE(generate(*t.model, {3}, o, t.stream), ConfigError, "temperature = -1");
  o = {};
  o.top_k = -2;
  EXPECT_MESSAGE(generate(*t.model, {3}, o, t.stream), ConfigError, "top_k = -2");
  o = {};
  o.count = 0;
  EXPECT_TRUE(generate(*t.model, {3}, o, t.stream).empty());
}

}  // namespace
}  // namespace shoal
