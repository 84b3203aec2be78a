// GPT-2 (Radford et al. 2019): learned positions, LayerNorm before each block, tanh GELU, biases, dropout on the
// embedding, attention probabilities and both blocks' outputs.
#include <fmt/format.h>

#include "models/transformer.hpp"
#include "shoal/nn/mlp.hpp"

namespace shoal::models {

Parts gpt_parts(const ModelConfig& c) {
  const auto norm = [&](const std::string& name) {
    return nn::layer_norm(name, c.hidden, c.norm_eps, c.tensor);
  };
  Parts parts;
  parts.embedding = std::make_unique<nn::Embedding>(nn::EmbeddingConfig{.word = "wte",
                                                                        .position = "wpe",
                                                                        .vocab = c.vocab,
                                                                        .seq = c.seq,
                                                                        .hidden = c.hidden,
                                                                        .tensor = c.tensor,
                                                                        .dropout = c.dropout,
                                                                        .tied = c.tie_embeddings});
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string block = fmt::format("blocks.{}.", i);
    const auto layer = static_cast<std::uint32_t>(i);
    nn::AttentionConfig attention;
    attention.name = block + "attn";
    attention.hidden = c.hidden;
    attention.heads = attention.kv_heads = c.heads;
    attention.tensor = c.tensor;
    attention.dropout = c.dropout;
    attention.layer = layer;
    const nn::MlpConfig mlp{block + "mlp", c.hidden, c.ffn_hidden, c.tensor, c.dropout, layer};
    parts.layers.push_back({std::make_unique<nn::AttentionBlock>(attention, norm(block + "ln_1"), nullptr),
                            std::make_unique<nn::GeluMlpBlock>(mlp, norm(block + "ln_2"))});
  }
  parts.head = std::make_unique<nn::LmHead>("lm_head", norm("ln_f"),
                                            c.tie_embeddings ? &parts.embedding->word() : nullptr, c.vocab,
                                            c.hidden, c.tensor);
  return parts;
}

}  // namespace shoal::models
