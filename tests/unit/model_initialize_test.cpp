#include <gtest/gtest.h>

#include "support/model.hpp"

namespace shoal {
namespace {

using models::ModelType;
using test::Named;
using test::TestModel;
using test::tiny;

std::vector<std::string> logical_names(models::LanguageModel& model) {
  std::vector<std::string> names;
  for (nn::Parameter* p : model.parameters())
    for (const shard::LogicalTensor& t : p->placement.logical) names.push_back(t.name);
  return names;
}

TEST(Initialize, LogicalNamesAreTheSameInEverySplit) {
  const std::vector<std::string> gpt = {"wte.weight",
                                        "wpe.weight",
                                        "blocks.0.ln_1.weight",
                                        "blocks.0.ln_1.bias",
                                        "blocks.0.attn.q.weight",
                                        "blocks.0.attn.k.weight",
                                        "blocks.0.attn.v.weight",
                                        "blocks.0.attn.q.bias",
                                        "blocks.0.attn.k.bias",
                                        "blocks.0.attn.v.bias",
                                        "blocks.0.attn.proj.weight",
                                        "blocks.0.attn.proj.bias",
                                        "blocks.0.ln_2.weight",
                                        "blocks.0.ln_2.bias",
                                        "blocks.0.mlp.fc.weight",
                                        "blocks.0.mlp.fc.bias",
                                        "blocks.0.mlp.proj.weight",
                                        "blocks.0.mlp.proj.bias",
                                        "ln_f.weight",
                                        "ln_f.bias"};
  const std::vector<std::string> llama = {"model.embed_tokens.weight",
                                          "model.layers.0.input_layernorm.weight",
                                          "model.layers.0.self_attn.q_proj.weight",
                                          "model.layers.0.self_attn.k_proj.weight",
                                          "model.layers.0.self_attn.v_proj.weight",
                                          "model.layers.0.self_attn.o_proj.weight",
                                          "model.layers.0.post_attention_layernorm.weight",
                                          "model.layers.0.mlp.gate_proj.weight",
                                          "model.layers.0.mlp.up_proj.weight",
                                          "model.layers.0.mlp.down_proj.weight",
                                          "model.norm.weight",
                                          "lm_head.weight"};
  for (std::int64_t tensor : {1, 2, 3, 4}) {
    for (ModelType type : {ModelType::gpt, ModelType::llama}) {
      models::ModelConfig c = tiny(type, tensor);
      c.layers = 1;
      EXPECT_EQ(logical_names(*models::make_model(c)), type == ModelType::gpt ? gpt : llama) << tensor;
    }
  }
}

TEST(Initialize, LogicalValuesDoNotDependOnThePieces) {
  for (ModelType type : {ModelType::gpt, ModelType::llama}) {
    TestModel one(tiny(type), 5);
    const Named want = test::values_by_name(*one.model);
    for (std::int64_t tensor : {2, 3, 4, 6}) {
      TestModel split(tiny(type, tensor), 5);
      EXPECT_EQ(test::values_by_name(*split.model), want) << tensor << " pieces";
    }
    TestModel other(tiny(type), 6);
    EXPECT_NE(test::values_by_name(*other.model), want) << "another seed";
  }
}

TEST(Initialize, ValuesAreFunctionsOfTensorAndElement) {
  TestModel t(tiny(ModelType::gpt, 2), 5);
  const Named values = test::values_by_name(*t.model);
  const std::vector<std::string> names = logical_names(*t.model);
  for (std::uint32_t l = 0; l < names.size(); ++l) {
    const std::vector<float>& v = values.at(names[l]);
    const bool norm = names[l].find("ln_") != std::string::npos, bias = names[l].ends_with(".bias");
    const double scale = names[l].ends_with(".proj.weight") ? 0.02 / std::sqrt(4.0) : 0.02;
    const RandomKey key{5, Purpose::init, 0, l};
    for (std::size_t i = 0; i < v.size(); ++i) {
      const float want = bias ? 0.0f : norm ? 1.0f : static_cast<float>(key.normal(i) * scale);
      ASSERT_EQ(v[i], want) << names[l] << " element " << i;
    }
  }
}

TEST(Initialize, PaddingIsZero) {
  TestModel t(tiny(ModelType::gpt, 4));  // 101 rows in 4 pieces of 26
  const nn::Parameter* word = t.model->parameters()[0];
  EXPECT_EQ(word->shape, (Shape{4, 26, 48}));
  EXPECT_EQ(word->parts, 2);
  for (std::int64_t i = 101 * 48; i < 104 * 48; ++i) ASSERT_EQ(word->value.as<float>()[i], 0.0f);
}

TEST(Initialize, PiecesFollowTheUnitsOfEachDimension) {
  // 6 heads, 2 key/value heads, 72 inner columns in 4 pieces: gcd 2, 2 and 4.
  TestModel fused(tiny(ModelType::llama, 4));
  // ... in 3 pieces: gcd 3, 1 and 3, so keys and values are apart.
  TestModel apart(tiny(ModelType::llama, 3));
  std::map<std::string, Shape> shapes;
  for (nn::Parameter* p : fused.model->parameters()) shapes["4 " + p->name] = p->shape;
  for (nn::Parameter* p : apart.model->parameters()) shapes["3 " + p->name] = p->shape;
  const std::string layer = "model.layers.1.";
  EXPECT_EQ(shapes["4 " + layer + "self_attn.qkv_proj.weight"], (Shape{2, 40, 48}));
  EXPECT_EQ(shapes["4 " + layer + "self_attn.o_proj.weight"], (Shape{2, 48, 24}));
  EXPECT_EQ(shapes["4 " + layer + "mlp.gate_up_proj.weight"], (Shape{4, 36, 48}));
  EXPECT_EQ(shapes["4 " + layer + "mlp.down_proj.weight"], (Shape{4, 48, 18}));
  EXPECT_EQ(shapes["3 " + layer + "self_attn.q_proj.weight"], (Shape{3, 16, 48}));
  EXPECT_EQ(shapes["3 " + layer + "self_attn.kv_proj.weight"], (Shape{1, 32, 48}));
  EXPECT_EQ(shapes["3 lm_head.weight"], (Shape{3, 34, 48}));
}

}  // namespace
}  // namespace shoal
