#include "shoal/nn/embedding.hpp"

#include "nn/parameter.hpp"
#include "shoal/ops/embedding.hpp"
#include "shoal/shard/split.hpp"

namespace shoal::nn {

Embedding::Embedding(const EmbeddingConfig& c) : config_(c) {
  const std::int64_t padded = shard::round_up(c.vocab, c.tensor);
  word_ = make_parameter(c.word + ".weight", ParameterKind::embedding,
                         shard::Placement::rows(c.word + ".weight", {c.vocab, c.hidden}, c.tensor, padded),
                         {c.tensor, padded / c.tensor, c.hidden}, c.tied ? 2 : 1, "use");
  if (!c.position.empty())
    position_ = make_parameter(c.position + ".weight", ParameterKind::embedding,
                               shard::Placement::whole(c.position + ".weight", {c.seq, c.hidden}),
                               {1, c.seq, c.hidden});
}

std::vector<Parameter*> Embedding::parameters() {
  return position_ ? std::vector<Parameter*>{&word_, &*position_} : std::vector<Parameter*>{&word_};
}

Tensor Embedding::forward(const Tensor& tokens, const Microbatch& mb, std::int64_t first) const {
  Tensor y = mb.activation({tokens.numel(), config_.hidden});
  const Tensor position = position_ ? position_->value.select(0).slice(first, first + mb.seq) : Tensor();
  ops::embedding_forward(mb.stream, tokens, word_.value, position, mb.seq,
                         mb.dropout(config_.dropout, Purpose::dropout_embedding, 0), y, config_.vocab);
  mb.observe("activation", config_.word, y);
  return y;
}

void Embedding::backward(const Tensor& dy, const Tensor& tokens, const Microbatch& mb) {
  Tensor dposition;
  if (position_) {
    const Tensor whole = position_->grad[0].select(0);
    dposition = whole.slice(0, mb.seq);
    if (!mb.accumulate) fill_zero(mb.stream, whole.slice(mb.seq, config_.seq));
  }
  ops::embedding_backward(mb.stream, dy, tokens, mb.seq,
                          mb.dropout(config_.dropout, Purpose::dropout_embedding, 0), word_.grad[0],
                          dposition, mb.accumulate, config_.vocab);
  if (position_) mb.ready(*position_);
  mb.ready(word_);
}

}  // namespace shoal::nn
