#include "shoal/ops/embedding.hpp"

#include "kernels/cpu/embedding.hpp"
#include "ops/dispatch.hpp"
#include "ops/dropout_args.hpp"

namespace shoal::ops {
namespace {

// Sets `vocab` to the number of rows where it is 0.
kernels::EmbeddingArgs check(const char* op, const Tensor& tokens, const Tensor& word, const Tensor& position,
                             std::int64_t seq, const Dropout& dropout, const char* word_name,
                             std::int64_t& vocab) {
  if (!word.defined() || (word.shape().rank() != 2 && word.shape().rank() != 3))
    throw ShapeError(fmt::format("{}: {}: expected [vocab, hidden] or [pieces, rows, hidden], got {}", op,
                                 word_name, word.str()));
  storage_of(op, word_name, word);
  const bool split = word.shape().rank() == 3;
  if (!split) word.require_dense();
  if (!tokens.defined() || tokens.dtype() != DType::i32 || tokens.shape().rank() != 1)
    throw ShapeError(fmt::format("{}: tokens: expected i32 [tokens], got {}", op, tokens.str()));
  const std::int64_t hidden = word.dim(-1), pieces = split ? word.dim(0) : 1, piece_rows = word.dim(-2),
                     gap = split ? word.leading_stride() - piece_rows * hidden : 0;
  if (vocab < 0 || vocab > pieces * piece_rows)
    throw ShapeError(fmt::format("{}: a vocabulary of {} in {} {}", op, vocab, word_name, word.str()));
  if (vocab == 0) vocab = pieces * piece_rows;
  if (seq < 1 || dropout.first_sample < 0)
    throw ShapeError(fmt::format("{}: seq = {}, first_sample = {}: expected at least 1 and 0", op, seq,
                                 dropout.first_sample));
  if (position.defined() && (position.dtype() != word.dtype() || position.shape().rank() != 2 ||
                             position.dim(0) < seq || position.dim(1) != hidden))
    throw ShapeError(fmt::format("{}: position: expected {} [at least {}, {}], got {}", op,
                                 name(word.dtype()), seq, hidden, position.str()));
  if (position.defined()) position.require_dense();
  return {tokens.as<std::int32_t>(),          tokens.dim(0), hidden, seq, pieces, piece_rows, gap,
          dropout_args(dropout, seq * hidden)};
}

// Before any work, and in stream order: the ids may only be there then.
void check_ids(const char* op, const Tensor& tokens, std::int64_t vocab) {
  const std::int32_t* t = tokens.as<std::int32_t>();
  for (std::int64_t i = 0; i < tokens.numel(); ++i)
    if (t[i] < 0 || t[i] >= vocab)
      throw ShapeError(
          fmt::format("{}: token {} has id {}, outside the vocabulary [0, {})", op, i, t[i], vocab));
}

float* data(const Tensor& t) { return t.defined() ? t.as<float>() : nullptr; }

}  // namespace

void embedding_forward(const Stream& stream, const Tensor& tokens, const Tensor& word, const Tensor& position,
                       std::int64_t seq, const Dropout& dropout, const Tensor& y, std::int64_t vocab) {
  const auto args = check("embedding_forward", tokens, word, position, seq, dropout, "word", vocab);
  const kernels::Storage parameters = storage_of("embedding_forward", "word", word);
  const kernels::Storage type = storage_of("embedding_forward", "y", y);
  expect("embedding_forward", "y", y, y.dtype(), {args.rows, args.hidden});
  launch(stream, [=] {
    check_ids("embedding_forward", tokens, vocab);
    SHOAL_PICK(embedding_forward)(args, parameters, word.data(), position.data(), type, y.data());
  });
}

void embedding_backward(const Stream& stream, const Tensor& dy, const Tensor& tokens, std::int64_t seq,
                        const Dropout& dropout, const Tensor& dword, const Tensor& dposition, bool accumulate,
                        std::int64_t vocab) {
  const auto args = check("embedding_backward", tokens, dword, dposition, seq, dropout, "dword", vocab);
  const kernels::Storage type = storage_of("embedding_backward", "dy", dy);
  expect("embedding_backward", "dy", dy, dy.dtype(), {args.rows, args.hidden});
  dword.require(DType::f32);
  launch(stream, [=] {
    check_ids("embedding_backward", tokens, vocab);
    SHOAL_PICK(embedding_backward)
    (args, type, dy.data(), dword.base<float>(), data(dposition), dposition.defined() ? dposition.dim(0) : 0,
     accumulate);
  });
}

}  // namespace shoal::ops
