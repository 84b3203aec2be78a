// A language model: embedding, blocks, head; trained with softmax cross-entropy.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "shoal/models/config.hpp"
#include "shoal/nn/module.hpp"

namespace shoal::models {

// Generates text token by token, keeping the keys and values of the tokens it has seen.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // Takes the next token; the logits f32 [vocab] of the one after it. Throws ShapeError when config().seq tokens
  // have been taken, or the token is outside the vocabulary.
  virtual Tensor step(std::int32_t token) = 0;
  virtual std::int64_t position() const = 0;  // tokens taken so far
  virtual void restart() = 0;                 // forgets them
};

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;
  virtual const ModelConfig& config() const = 0;
  // In model order. They have no memory until they are bound (parallel::BucketEngine, or bind_parameters).
  virtual std::vector<nn::Parameter*> parameters() = 0;

  // tokens, targets i32 [samples x seq] -> loss f32 [samples x seq], 0 where a target is ops::ignored_token.
  // What backward needs, the logit gradient included, goes to `saved`.
  virtual Tensor forward(const Tensor& tokens, const Tensor& targets, nn::Saved& saved,
                         const nn::Microbatch& mb) = 0;
  virtual void backward(nn::Saved& saved, const nn::Microbatch& mb) = 0;
  // Loss alone, without dropout; saves nothing for backward, so that it needs far less memory.
  virtual Tensor evaluate(const Tensor& tokens, const Tensor& targets, const nn::Microbatch& mb) = 0;
  // Logits f32 [samples x seq, vocab] without padding columns, without dropout.
  virtual Tensor logits(const Tensor& tokens, const nn::Microbatch& mb) = 0;
  virtual std::unique_ptr<Decoder> decoder(const Stream& stream) = 0;  // must not outlive the model

  // Bytes that one microbatch of `samples` samples needs at its peak, beyond parameters, gradients and optimizer
  // state: saved activations (of type `activations`), plus the largest temporaries alive with them.
  virtual std::int64_t activation_peak_bytes(std::int64_t samples, DType activations = DType::f32) const = 0;
  virtual std::int64_t saved_bytes(std::int64_t samples, DType activations = DType::f32) const = 0;
};

std::unique_ptr<LanguageModel> make_model(const ModelConfig& config);  // throws ConfigError

// Gives the parameters memory of their own (values of `param_dtype`, one f32 gradient a part), for use without a bucket
// engine.
void bind_parameters(LanguageModel& model, const Stream& stream, DType param_dtype = DType::f32);

// Initial values by R10, computed on the host, element i of logical tensor l (model order) from
// RandomKey{seed, Purpose::init, 0, l}.normal(i): N(0, 0.02), residual projections divided by sqrt(2 layers),
// norms 1, biases 0, padding 0. Values narrower than FP32 are these, rounded once.
void initialize(LanguageModel& model, std::uint64_t seed, const Stream& stream);

// Text generation: continues `prompt` (at least one token) by `count` tokens, drawn with Purpose::sample from
// softmax(logits / temperature) over the top_k most likely (0: all); temperature 0 takes the most likely. Token i
// (of the new ones) is drawn with number i. The model sees a window of at most config().seq tokens: when that is
// full, it is begun again with its later half. Throws ConfigError naming the option, or the token of the prompt
// that is not in the vocabulary.
struct SampleOptions {
  std::int64_t count = 200;
  double temperature = 0.8;
  std::int64_t top_k = 0;
  std::uint64_t seed = 1;
};
// Returns the new tokens. Throws ConfigError for impossible options, DataError where a logit is not finite.
std::vector<std::int32_t> generate(LanguageModel& model, const std::vector<std::int32_t>& prompt,
                                   const SampleOptions& options, const Stream& stream);

}  // namespace shoal::models
