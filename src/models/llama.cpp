// Llama (Touvron et al. 2023): RMSNorm before each block, rotary position embedding, grouped queries, SwiGLU, no
// biases. Logical names are those of Hugging Face's checkpoints.
#include <fmt/format.h>

#include "models/transformer.hpp"
#include "shoal/nn/mlp.hpp"

namespace shoal::models {

Parts llama_parts(const ModelConfig& c) {
  const auto norm = [&](const std::string& name) {
    return nn::rms_norm(name, c.hidden, c.norm_eps, c.tensor);
  };
  Parts parts;
  parts.rotary = std::make_shared<nn::Rotary>(c.seq, c.head_dim(), c.rope_theta);
  parts.embedding = std::make_unique<nn::Embedding>(nn::EmbeddingConfig{.word = "model.embed_tokens",
                                                                        .position = "",
                                                                        .vocab = c.vocab,
                                                                        .seq = c.seq,
                                                                        .hidden = c.hidden,
                                                                        .tensor = c.tensor,
                                                                        .dropout = 0,
                                                                        .tied = c.tie_embeddings});
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string block = fmt::format("model.layers.{}.", i);
    const auto layer = static_cast<std::uint32_t>(i);
    nn::AttentionConfig attention;
    attention.name = block + "self_attn";
    attention.q = "q_proj";
    attention.k = "k_proj";
    attention.v = "v_proj";
    attention.out = "o_proj";
    attention.qkv = "qkv_proj";
    attention.kv = "kv_proj";
    attention.hidden = c.hidden;
    attention.heads = c.heads;
    attention.kv_heads = c.kv_heads;
    attention.tensor = c.tensor;
    attention.bias = false;
    attention.layer = layer;
    const nn::MlpConfig mlp{block + "mlp", c.hidden, c.ffn_hidden, c.tensor, 0.0, layer};
    parts.layers.push_back(
        {std::make_unique<nn::AttentionBlock>(attention, norm(block + "input_layernorm"), parts.rotary),
         std::make_unique<nn::SwigluMlpBlock>(mlp, norm(block + "post_attention_layernorm"))});
  }
  parts.head = std::make_unique<nn::LmHead>("lm_head", norm("model.norm"),
                                            c.tie_embeddings ? &parts.embedding->word() : nullptr, c.vocab,
                                            c.hidden, c.tensor);
  return parts;
}

}  // namespace shoal::models
