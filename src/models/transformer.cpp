// Saved: children[0] holds the tokens, the next ones a block each, the last one the head's. Backward pops them, so
// that a block's activations are gone when the block before it starts.
#include "models/transformer.hpp"

#include <fmt/format.h>

#include "shoal/core/error.hpp"

namespace shoal::models {

Transformer::Transformer(const ModelConfig& resolved, Parts parts)
    : config_(resolved), parts_(std::move(parts)) {
  for (Parts::Layer& layer : parts_.layers) {
    blocks_.push_back(layer.attention.get());
    blocks_.push_back(layer.mlp.get());
  }
}

std::vector<nn::Parameter*> Transformer::parameters() {
  std::vector<nn::Parameter*> all = parts_.embedding->parameters();
  for (nn::Module* block : blocks_)
    for (nn::Parameter* p : block->parameters()) all.push_back(p);
  for (nn::Parameter* p : parts_.head->parameters()) all.push_back(p);
  return all;
}

void Transformer::check(const Tensor& tokens, const nn::Microbatch& mb) const {
  if (mb.seq < 1 || mb.seq > config_.seq)
    throw ShapeError(
        fmt::format("a microbatch of sequences of {} tokens: the model takes 1 to {}", mb.seq, config_.seq));
  tokens.require(DType::i32);
  if (tokens.numel() != mb.tokens())
    throw ShapeError(
        fmt::format("tokens {} for a microbatch of {} samples of {}", tokens.str(), mb.samples, mb.seq));
  if (!parts_.embedding->word().value.defined())
    throw ConfigError("the model's parameters have no memory: bind_parameters, or a bucket engine, gives it");
}

Tensor Transformer::forward(const Tensor& tokens, const Tensor& targets, nn::Saved& saved,
                            const nn::Microbatch& mb) {
  check(tokens, mb);
  saved.tensors.clear();
  saved.children.clear();
  saved.children.resize(blocks_.size() + 2);
  saved.children[0].tensors.push_back(tokens);
  Tensor x = parts_.embedding->forward(tokens, mb);
  for (std::size_t i = 0; i < blocks_.size(); ++i) x = blocks_[i]->forward(x, saved.children[i + 1], mb);
  return parts_.head->forward(x, targets, saved.children.back(), mb);
}

void Transformer::backward(nn::Saved& saved, const nn::Microbatch& mb) {
  if (saved.children.size() != blocks_.size() + 2)
    throw ConfigError(
        fmt::format("backward of a model of {} blocks with what {} saved: forward comes first, and each "
                    "forward has one backward",
                    blocks_.size() + 2, saved.children.size()));
  Tensor d = parts_.head->backward(saved.children.back(), mb);
  saved.children.pop_back();
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    d = blocks_[i]->backward(std::move(d), saved.children.back(), mb);
    saved.children.pop_back();
  }
  parts_.embedding->backward(d, saved.children[0].tensors[0], mb);
  saved.children.clear();
}

Tensor Transformer::residual_stream(const Tensor& tokens, const nn::Microbatch& mb) {
  check(tokens, mb);
  Tensor x = parts_.embedding->forward(tokens, mb);
  for (nn::Module* block : blocks_) {
    nn::Saved saved;
    x = block->forward(x, saved, mb);
  }
  return x;
}

Tensor Transformer::evaluate(const Tensor& tokens, const Tensor& targets, const nn::Microbatch& mb) {
  nn::Microbatch plain = mb;
  plain.training = false;
  return parts_.head->loss(residual_stream(tokens, plain), targets, plain);
}

Tensor Transformer::logits(const Tensor& tokens, const nn::Microbatch& mb) {
  nn::Microbatch plain = mb;
  plain.training = false;
  return parts_.head->logits(residual_stream(tokens, plain), plain);
}

std::int64_t Transformer::saved_bytes(std::int64_t samples, DType activations) const {
  std::int64_t n = parts_.head->saved_bytes(samples * config_.seq, activations);
  for (const nn::Module* block : blocks_) n += block->saved_bytes(samples, config_.seq, activations);
  return n;
}

std::int64_t Transformer::activation_peak_bytes(std::int64_t samples, DType activations) const {
  nn::MemoryMeter meter(activations);
  const std::int64_t tokens = samples * config_.seq;
  if (parts_.rotary)
    for (int table = 0; table < 2; ++table) meter.take(parts_.rotary->table_elements());
  meter.take_activation(tokens * config_.hidden);
  for (const nn::Module* block : blocks_) block->count_forward(meter, samples, config_.seq);
  parts_.head->count_forward(meter, tokens);
  parts_.head->count_backward(meter, tokens);
  for (std::size_t i = blocks_.size(); i-- > 0;) blocks_[i]->count_backward(meter, samples, config_.seq);
  return meter.peak();
}

std::unique_ptr<LanguageModel> make_model(const ModelConfig& config) {
  const ModelConfig c = config.resolved();
  return std::make_unique<Transformer>(c, c.type == ModelType::gpt ? gpt_parts(c) : llama_parts(c));
}

}  // namespace shoal::models
