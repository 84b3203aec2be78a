// What a model is: the [model] section of a job, with defaults filled in.
#pragma once
#include <cstdint>
#include <string>

namespace shoal::models {

enum class ModelType : unsigned char { gpt, llama };

struct ModelConfig {
  ModelType type = ModelType::gpt;
  std::int64_t layers = 4, hidden = 128, heads = 4;
  std::int64_t kv_heads = 0;    // 0: as many as heads (GPT always)
  std::int64_t ffn_hidden = 0;  // 0: 4 hidden for GPT; for Llama 8/3 hidden rounded up to a multiple of 32
  std::int64_t vocab = 256, seq = 64;
  double dropout = 0.0;        // GPT: embedding, attention probabilities, attention and feed-forward outputs
  bool tie_embeddings = true;  // Llama's default, set by the job reader, is false
  double norm_eps = 1e-5;
  double rope_theta = 10000.0;  // Llama
  // Logical tensor pieces (reproducible.tensor, docs/numerics.md R1): a dimension of u units has
  // gcd(tensor, u) pieces; the vocabulary is padded to a multiple of it.
  std::int64_t tensor = 1;

  std::int64_t head_dim() const { return hidden / heads; }
  std::int64_t padded_vocab() const { return (vocab + tensor - 1) / tensor * tensor; }
  // Fills the zeros and checks everything; throws ConfigError naming every factor (hidden not divisible by heads
  // and which head counts would do, ...).
  ModelConfig resolved() const;
};

}  // namespace shoal::models
