#include <fmt/format.h>

#include "models/transformer.hpp"
#include "shoal/core/error.hpp"

namespace shoal::models {
namespace {

class TransformerDecoder final : public Decoder {
 public:
  TransformerDecoder(Transformer& model, const Stream& stream) : model_(model) {
    mb_.samples = 1;
    mb_.seq = 1;
    mb_.training = false;
    mb_.stream = stream;
    const ModelConfig& c = model.config();
    for (std::int64_t i = 0; i < 2 * c.layers; ++i)
      caches_.push_back(mb_.empty({c.seq, c.kv_heads * c.head_dim()}));
  }

  Tensor step(std::int32_t token) override {
    const ModelConfig& c = model_.config();
    if (position_ >= c.seq)
      throw ShapeError(fmt::format("a decoder given token {}: the model takes {}", position_ + 1, c.seq));
    if (token < 0 || token >= c.vocab)
      throw ShapeError(
          fmt::format("token {} at position {}: the vocabulary has {}", token, position_, c.vocab));
    const Tensor tokens = mb_.empty({1}, DType::i32);
    copy(mb_.stream, Tensor::from_blob(&token, {1}, DType::i32, {}), tokens);
    mb_.stream.synchronize();
    Parts& parts = model_.parts();
    Tensor x = parts.embedding->forward(tokens, mb_, position_);
    for (std::size_t i = 0; i < parts.layers.size(); ++i) {
      x = parts.layers[i].attention->decode(x, position_, caches_[2 * i], caches_[2 * i + 1], mb_);
      nn::Saved saved;
      x = parts.layers[i].mlp->forward(x, saved, mb_);
    }
    ++position_;
    return parts.head->logits(x, mb_).select(0);
  }

  std::int64_t position() const override { return position_; }
  void restart() override { position_ = 0; }

 private:
  Transformer& model_;
  nn::Microbatch mb_;
  std::vector<Tensor> caches_;  // keys and values of each layer
  std::int64_t position_ = 0;
};

}  // namespace

std::unique_ptr<Decoder> Transformer::decoder(const Stream& stream) {
  return std::make_unique<TransformerDecoder>(*this, stream);
}

}  // namespace shoal::models
