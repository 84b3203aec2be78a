// The prediction of a microbatch's memory is held against the allocator's counters, to the byte.
#include <gtest/gtest.h>

#include "support/model.hpp"

namespace shoal {
namespace {

using models::ModelConfig;
using models::ModelType;
using test::TestModel;
using test::tiny;

std::vector<ModelConfig> configs() {
  std::vector<ModelConfig> all;
  for (ModelType type : {ModelType::gpt, ModelType::llama})
    for (std::int64_t tensor : {1, 2, 3, 4}) all.push_back(tiny(type, tensor));
  ModelConfig dropout = tiny(ModelType::gpt);
  dropout.dropout = 0.1;
  all.push_back(dropout);
  ModelConfig large_vocabulary = tiny(ModelType::gpt, 2);  // the peak is at the head
  large_vocabulary.vocab = 4001;
  all.push_back(large_vocabulary);
  ModelConfig untied = tiny(ModelType::llama);
  untied.tie_embeddings = true;
  untied.layers = 1;
  untied.seq = 100;
  all.push_back(untied);
  return all;
}

std::string describe(const ModelConfig& c) {
  return std::string(c.type == ModelType::gpt ? "gpt" : "llama") + ", " + std::to_string(c.tensor) +
         " pieces, vocabulary " + std::to_string(c.vocab) + ", dropout " + std::to_string(c.dropout);
}

TEST(ModelMemory, PredictionsAreExact) {
  for (const ModelConfig& c : configs()) {
    for (std::int64_t samples : {1, 3}) {
      if (samples * c.seq % c.tensor != 0) continue;
      TestModel t(c);
      const nn::Microbatch mb = t.microbatch(samples);
      const Tensor tokens = test::test_tokens(t.stream, mb.tokens(), c.vocab, 1);
      const Tensor targets = test::test_tokens(t.stream, mb.tokens(), c.vocab, 2);
      const std::int64_t start = t.allocator->stats().in_use;
      t.allocator->reset_peak();
      {
        nn::Saved saved;
        Tensor loss = t.model->forward(tokens, targets, saved, mb);
        const std::int64_t tables =
            t.model->activation_peak_bytes(0);  // rotary angles, kept from the first use on
        EXPECT_EQ(t.allocator->stats().in_use - start,
                  tables + t.model->saved_bytes(samples) + nn::MemoryMeter::rounded(mb.tokens()))
            << describe(c);
        EXPECT_LE(saved.nbytes(), t.model->saved_bytes(samples) + tokens.nbytes());
        t.model->backward(saved, mb);
        EXPECT_EQ(t.allocator->stats().in_use - start, tables + nn::MemoryMeter::rounded(mb.tokens()))
            << "after backward only the loss is left; " << describe(c);
      }
      EXPECT_EQ(t.allocator->stats().peak - start, t.model->activation_peak_bytes(samples)) << describe(c);
    }
  }
}

TEST(ModelMemory, EvaluationNeedsFarLess) {
  ModelConfig c = tiny(ModelType::gpt);
  c.layers = 8;
  TestModel t(c);
  const nn::Microbatch mb = t.microbatch(4);
  const Tensor tokens = test::test_tokens(t.stream, mb.tokens(), c.vocab, 1);
  const std::int64_t start = t.allocator->stats().in_use;
  t.allocator->reset_peak();
  t.model->evaluate(tokens, tokens, mb);
  EXPECT_EQ(t.allocator->stats().in_use, start);
  EXPECT_LT(t.allocator->stats().peak - start, t.model->activation_peak_bytes(4) / 4);
}

}  // namespace
}  // namespace shoal
