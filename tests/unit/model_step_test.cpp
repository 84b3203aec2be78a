// Forward and backward of whole models: pieces, microbatches, the order of readiness, bad input.
#include <gtest/gtest.h>

#include "shoal/core/error.hpp"
#include "support/expect_message.hpp"
#include "support/model.hpp"

namespace shoal {
namespace {

using models::ModelConfig;
using models::ModelType;
using test::Named;
using test::TestModel;
using test::tiny;

void expect_close(const Named& got, const Named& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  const double global = test::global_norm(want);
  EXPECT_GT(global, 1e-3);
  for (const auto& [name, v] : want)
    EXPECT_LE(test::distance(got.at(name), v), 1e-5 * std::max(test::norm2(v), 1e-3 * global))
        << what << ": " << name;
}

TEST(ModelStep, PiecesGiveTheSameMathematics) {
  for (ModelType type : {ModelType::gpt, ModelType::llama}) {
    TestModel one(tiny(type));
    const double loss = test::run_step(one, 2, 2, 5);
    const Named want = test::gradients_by_name(*one.model);
    // Six heads and two of key/value: fused in 2 and 4 pieces, apart in 3 and 6.
    for (std::int64_t tensor : {2, 3, 4, 6}) {
      TestModel split(tiny(type, tensor));
      EXPECT_NEAR(test::run_step(split, 2, 2, 5), loss, 1e-5 * loss);
      expect_close(test::gradients_by_name(*split.model), want, std::to_string(tensor) + " pieces");
    }
  }
}

TEST(ModelStep, MicrobatchesGiveTheSameStepAndDropoutMasks) {
  for (std::int64_t tensor : {1, 2}) {
    ModelConfig c = tiny(ModelType::gpt, tensor);
    c.dropout = 0.2;
    TestModel t(c);
    const double loss = test::run_step(t, 4, 4);
    const Named want = test::gradients_by_name(*t.model);
    for (std::int64_t micro : {1, 2}) {
      EXPECT_NEAR(test::run_step(t, 4, micro), loss, 1e-5 * loss);
      expect_close(test::gradients_by_name(*t.model), want, "microbatches of " + std::to_string(micro));
    }
  }
}

TEST(ModelStep, DropoutActsInTrainingOnly) {
  ModelConfig c = tiny(ModelType::gpt);
  TestModel plain(c);
  c.dropout = 0.5;
  TestModel t(c);
  const Tensor tokens = test::test_tokens(t.stream, 24, c.vocab, 1);
  nn::Saved saved;
  const double trained = test::total(t.model->forward(tokens, tokens, saved, t.microbatch(2)));
  const double evaluated = test::total(t.model->evaluate(tokens, tokens, t.microbatch(2)));
  EXPECT_NE(trained, evaluated);
  EXPECT_EQ(evaluated, test::total(plain.model->forward(tokens, tokens, saved, plain.microbatch(2))));
}

TEST(ModelStep, LossAgreesWithTheLogits) {
  for (std::int64_t tensor : {1, 3}) {
    const ModelConfig c = tiny(ModelType::llama, tensor);
    TestModel t(c);
    const nn::Microbatch mb = t.microbatch(2);
    const Tensor tokens = test::test_tokens(t.stream, 24, c.vocab, 1),
                 targets = test::test_tokens(t.stream, 24, c.vocab, 2);
    const Tensor logits = t.model->logits(tokens, mb), loss = t.model->evaluate(tokens, targets, mb);
    ASSERT_EQ(logits.shape(), (Shape{24, 101}));
    for (std::int64_t i = 0; i < 24; ++i) {
      double sum = 0;
      for (std::int64_t v = 0; v < 101; ++v) sum += std::exp(double{logits.as<float>()[i * 101 + v]});
      EXPECT_NEAR(loss.as<float>()[i],
                  std::log(sum) - logits.as<float>()[i * 101 + targets.as<std::int32_t>()[i]], 1e-5);
    }
  }
}

struct Order final : nn::GradientSink {
  std::vector<std::pair<nn::Parameter*, std::int64_t>> calls;
  void ready(nn::Parameter& p, std::int64_t part) override { calls.emplace_back(&p, part); }
};

TEST(ModelStep, EveryPartIsReadyOnceLastParametersFirst) {
  for (ModelType type : {ModelType::gpt, ModelType::llama}) {
    for (std::int64_t tensor : {1, 3}) {
      const ModelConfig c = tiny(type, tensor);
      TestModel t(c);
      Order order;
      nn::Microbatch mb = t.microbatch(1);
      mb.sink = &order;
      const Tensor tokens = test::test_tokens(t.stream, 12, c.vocab, 1);
      nn::Saved saved;
      t.model->forward(tokens, tokens, saved, mb);
      EXPECT_TRUE(order.calls.empty());
      t.model->backward(saved, mb);
      std::map<nn::Parameter*, std::map<std::int64_t, int>> seen;
      std::map<nn::Parameter*, std::size_t> last;
      for (std::size_t i = 0; i < order.calls.size(); ++i) {
        ++seen[order.calls[i].first][order.calls[i].second];
        last[order.calls[i].first] = i;
      }
      const std::vector<nn::Parameter*> all = t.model->parameters();
      for (std::size_t i = 0; i < all.size(); ++i) {
        ASSERT_EQ(std::ssize(seen[all[i]]), all[i]->parts) << all[i]->name;
        for (const auto& [part, n] : seen[all[i]]) EXPECT_EQ(n, 1) << all[i]->name << " part " << part;
        // A block's norm comes first in model order and last in backward; blocks are in reverse order.
        if (i > 0 && all[i]->kind == nn::ParameterKind::norm &&
            all[i - 1]->kind == nn::ParameterKind::matrix) {
          EXPECT_GT(last[all[i - 1]], last[all[i]]) << all[i]->name;
        }
      }
      EXPECT_EQ(order.calls.back().first, all[0]) << "the embedding is used last";
    }
  }
}

TEST(ModelStep, ObserverSeesEveryLayer) {
  TestModel t(tiny(ModelType::gpt));
  std::map<std::string, int> activations, gradients;
  nn::Microbatch mb = t.microbatch(1);
  mb.observer = [&](const std::string& kind, const std::string& layer, const Tensor& tensor) {
    EXPECT_TRUE(tensor.defined()) << layer;
    ++(kind == "activation" ? activations : gradients)[layer];
  };
  const Tensor tokens = test::test_tokens(t.stream, 12, 101, 1);
  nn::Saved saved;
  t.model->forward(tokens, tokens, saved, mb);
  t.model->backward(saved, mb);
  for (const char* layer :
       {"wte", "blocks.1.ln_1", "blocks.1.attn.qkv", "blocks.1.attn.heads", "blocks.1.attn", "blocks.1.ln_2",
        "blocks.1.mlp.gelu_slope", "blocks.1.mlp.gelu", "blocks.1.mlp", "ln_f", "lm_head", "loss"})
    EXPECT_EQ(activations[layer], 1) << layer;
  for (const char* layer : {"lm_head", "ln_f", "blocks.1.mlp.fc", "blocks.1.mlp", "blocks.0.attn.heads",
                            "blocks.0.attn.qkv", "blocks.0.attn"})
    EXPECT_EQ(gradients[layer], 1) << layer;
}

TEST(ModelStep, BadInputIsNamed) {
  TestModel t(tiny(ModelType::gpt, 4));
  nn::Saved saved;
  nn::Microbatch mb = t.microbatch(1);
  const Tensor tokens = test::test_tokens(t.stream, 12, 101, 1);
  tokens.as<std::int32_t>()[5] = 101;  // a row of padding, never a token
  EXPECT_MESSAGE(t.model->forward(tokens, tokens, saved, mb), ShapeError, "101");
  mb.seq = 13;
  EXPECT_MESSAGE(t.model->forward(tokens, tokens, saved, mb), ShapeError,
                 "sequences of 13 tokens: the model takes 1 to 12");
  mb.seq = 6;
  EXPECT_MESSAGE(t.model->forward(tokens, tokens, saved, mb), ShapeError,
                 "for a microbatch of 1 samples of 6");
  saved.children.clear();
  EXPECT_MESSAGE(t.model->backward(saved, mb), ConfigError, "each forward has one backward");
  const Tensor five = test::test_tokens(t.stream, 5, 101, 1);
  mb.seq = 5;
  t.model->forward(five, five, saved, mb);
  EXPECT_MESSAGE(t.model->backward(saved, mb), ShapeError,
                 "5 tokens of a microbatch do not divide into 4 token shards");
  const auto unbound = models::make_model(tiny(ModelType::gpt));
  mb.seq = 12;
  EXPECT_MESSAGE(unbound->forward(tokens, tokens, saved, mb), ConfigError, "no memory");
}

}  // namespace
}  // namespace shoal
