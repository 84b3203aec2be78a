// The two ends of a language model: token embedding, and the head with its loss.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shoal/nn/linear.hpp"
#include "shoal/nn/module.hpp"
#include "shoal/nn/norm.hpp"

namespace shoal::nn {

struct EmbeddingConfig {
  std::string word, position;  // logical names without ".weight"; no position embedding where empty
  std::int64_t vocab = 0, seq = 0, hidden = 0;
  std::int64_t tensor = 1;  // the vocabulary, padded to a multiple of it, is in so many pieces of rows
  double dropout = 0;
  bool tied = false;  // the head uses the word embedding too: two gradient parts (R5 e)
};

class Embedding {
 public:
  explicit Embedding(const EmbeddingConfig& config);
  std::vector<Parameter*> parameters();
  Parameter& word() { return word_; }
  // tokens i32 [M] -> [M, hidden]; `first` is the position of each sample's first token.
  Tensor forward(const Tensor& tokens, const Microbatch& mb, std::int64_t first = 0) const;
  // Ends in gradient part 0 of the word embedding.
  void backward(const Tensor& dy, const Tensor& tokens, const Microbatch& mb);

 private:
  EmbeddingConfig config_;
  Parameter word_;                     // [pieces, padded vocabulary / pieces, hidden]
  std::optional<Parameter> position_;  // [1, seq, hidden]
};

// norm, logits, softmax cross-entropy. The logits' gradient is written over the logits in forward, so that they
// are in memory once.
class LmHead {
 public:
  // tied: the embedding's parameter (not owned), whose gradient part 1 is the head's; null: a weight of its own,
  // `name`.weight [vocab, hidden], stored like the embedding.
  LmHead(const std::string& name, std::unique_ptr<Norm> norm, Parameter* tied, std::int64_t vocab,
         std::int64_t hidden, std::int64_t tensor);
  std::vector<Parameter*> parameters();

  Tensor forward(const Tensor& x, const Tensor& targets, Saved& saved, const Microbatch& mb);  // loss [M]
  Tensor backward(Saved& saved, const Microbatch& mb);                              // dx [M, hidden]
  Tensor loss(const Tensor& x, const Tensor& targets, const Microbatch& mb) const;  // nothing is saved
  Tensor logits(const Tensor& x, const Microbatch& mb) const;                       // [M, vocab], dense

  std::int64_t saved_bytes(std::int64_t tokens, DType activations) const;
  void count_forward(MemoryMeter& meter, std::int64_t tokens) const;  // the loss stays on the meter
  void count_backward(MemoryMeter& meter, std::int64_t tokens) const;

 private:
  const Parameter& weight() const { return tied_ ? *tied_ : own_; }

  std::string name_;
  std::unique_ptr<Norm> norm_;
  Parameter* tied_;
  Parameter own_;
  std::int64_t vocab_, hidden_;
};

}  // namespace shoal::nn
