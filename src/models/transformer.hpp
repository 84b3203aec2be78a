// What GPT and Llama have in common: embedding, blocks that each add to the residual stream, head.
#pragma once
#include <memory>
#include <vector>

#include "shoal/models/model.hpp"
#include "shoal/nn/attention.hpp"
#include "shoal/nn/embedding.hpp"

namespace shoal::models {

// The parts of a model, in order: attention and feed-forward block of each layer. gpt.cpp and llama.cpp fill it in.
struct Parts {
  struct Layer {
    std::unique_ptr<nn::AttentionBlock> attention;
    std::unique_ptr<nn::Module> mlp;
  };
  std::unique_ptr<nn::Embedding> embedding;
  std::vector<Layer> layers;
  std::unique_ptr<nn::LmHead> head;
  std::shared_ptr<nn::Rotary> rotary;  // null: none
};
Parts gpt_parts(const ModelConfig& resolved);
Parts llama_parts(const ModelConfig& resolved);

class Transformer final : public LanguageModel {
 public:
  Transformer(const ModelConfig& resolved, Parts parts);

  const ModelConfig& config() const override { return config_; }
  std::vector<nn::Parameter*> parameters() override;
  Tensor forward(const Tensor& tokens, const Tensor& targets, nn::Saved& saved,
                 const nn::Microbatch& mb) override;
  void backward(nn::Saved& saved, const nn::Microbatch& mb) override;
  Tensor evaluate(const Tensor& tokens, const Tensor& targets, const nn::Microbatch& mb) override;
  Tensor logits(const Tensor& tokens, const nn::Microbatch& mb) override;
  std::unique_ptr<Decoder> decoder(const Stream& stream) override;
  std::int64_t activation_peak_bytes(std::int64_t samples, DType activations) const override;
  std::int64_t saved_bytes(std::int64_t samples, DType activations) const override;

  Parts& parts() { return parts_; }

 private:
  void check(const Tensor& tokens, const nn::Microbatch& mb) const;
  Tensor residual_stream(const Tensor& tokens,
                         const nn::Microbatch& mb);  // at the head's input, nothing saved

  ModelConfig config_;
  Parts parts_;
  std::vector<nn::Module*> blocks_;
};

}  // namespace shoal::models
