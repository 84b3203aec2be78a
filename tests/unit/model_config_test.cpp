#include <gtest/gtest.h>

#include "shoal/core/error.hpp"
#include "shoal/models/config.hpp"
#include "support/expect_message.hpp"

namespace shoal::models {
namespace {

ModelConfig with(auto change) {
  ModelConfig c;
  change(c);
  return c;
}
ModelConfig llama(auto change) {
  return with([&](ModelConfig& c) {
    c.type = ModelType::llama;
    change(c);
  });
}

TEST(ModelConfig, FillsInDefaults) {
  const ModelConfig gpt = ModelConfig{}.resolved();
  EXPECT_EQ(gpt.kv_heads, 4);
  EXPECT_EQ(gpt.ffn_hidden, 512);
  const ModelConfig l = llama([](ModelConfig& c) {
                          c.hidden = 4096;
                          c.heads = 32;
                        }).resolved();
  EXPECT_EQ(l.kv_heads, 32);
  EXPECT_EQ(l.ffn_hidden, 10944);  // 10922.67 rounded up to a multiple of 32
  EXPECT_EQ(llama([](ModelConfig& c) { c.hidden = 8; }).resolved().ffn_hidden, 32);
  EXPECT_EQ(llama([](ModelConfig& c) { c.ffn_hidden = 7; }).resolved().ffn_hidden, 7);
}

TEST(ModelConfig, PadsTheVocabularyToTheTensorPieces) {
  const ModelConfig c = with([](ModelConfig& m) {
    m.vocab = 101;
    m.tensor = 4;
  });
  EXPECT_EQ(c.padded_vocab(), 104);
  EXPECT_EQ(ModelConfig{}.padded_vocab(), 256);
}

TEST(ModelConfig, ErrorsNameEveryFactor) {
  EXPECT_MESSAGE(
      with([](ModelConfig& c) {
        c.hidden = 100;
        c.heads = 6;
      }).resolved(),
      ConfigError,
      "model.hidden = 100 is not divisible by model.heads = 6: head counts that divide it, near that one, "
      "are 1, 2, 4, 5, 10, 20");
  EXPECT_MESSAGE(
      llama([](ModelConfig& c) {
        c.heads = 8;
        c.kv_heads = 3;
      }).resolved(),
      ConfigError,
      "model.heads = 8 is not divisible by model.kv_heads = 3: key/value head counts that divide it, near "
      "that one, are 1, 2, 4, 8");
  EXPECT_MESSAGE(with([](ModelConfig& c) { c.kv_heads = 2; }).resolved(), ConfigError,
                 "model.kv_heads = 2 with model.heads = 4");
  EXPECT_MESSAGE(llama([](ModelConfig& c) { c.hidden = 20; }).resolved(), ConfigError,
                 "model.hidden = 20 / model.heads = 4 gives heads of 5 elements");
  EXPECT_MESSAGE(llama([](ModelConfig& c) { c.dropout = 0.1; }).resolved(), ConfigError,
                 "model.dropout = 0.1");
  EXPECT_MESSAGE(with([](ModelConfig& c) { c.dropout = 1; }).resolved(), ConfigError, "model.dropout = 1");
  EXPECT_MESSAGE(with([](ModelConfig& c) { c.dropout = -0.5; }).resolved(), ConfigError,
                 "model.dropout = -0.5");
  EXPECT_MESSAGE(with([](ModelConfig& c) { c.layers = 0; }).resolved(), ConfigError,
                 "model.layers = 0: expected 1 to");
  EXPECT_MESSAGE(with([](ModelConfig& c) { c.layers = 5000; }).resolved(), ConfigError, "expected 1 to 4000");
  EXPECT_MESSAGE(with([](ModelConfig& c) { c.heads = 0; }).resolved(), ConfigError, "model.heads = 0");
  EXPECT_MESSAGE(with([](ModelConfig& c) { c.vocab = 0; }).resolved(), ConfigError, "model.vocab = 0");
  EXPECT_MESSAGE(with([](ModelConfig& c) { c.seq = -1; }).resolved(), ConfigError, "model.seq = -1");
  EXPECT_MESSAGE(with([](ModelConfig& c) { c.vocab = std::int64_t{1} << 40; }).resolved(), ConfigError,
                 "model.vocab = 1099511627776");
  EXPECT_MESSAGE(with([](ModelConfig& c) { c.tensor = 0; }).resolved(), ConfigError,
                 "0 logical tensor pieces");
  EXPECT_MESSAGE(with([](ModelConfig& c) { c.norm_eps = 1e-50; }).resolved(), ConfigError,
                 "model.norm_eps = 1e-50: expected more than 0 (in FP32)");
  EXPECT_MESSAGE(with([](ModelConfig& c) { c.norm_eps = 0; }).resolved(), ConfigError, "model.norm_eps = 0");
  EXPECT_MESSAGE(llama([](ModelConfig& c) { c.rope_theta = -1; }).resolved(), ConfigError,
                 "model.rope_theta = -1");
}

}  // namespace
}  // namespace shoal::models
