#include "shoal/data/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/check_batch.hpp"
#include "shoal/core/error.hpp"

namespace shoal::data {
namespace {

[[noreturn]] void refuse_id(const Dataset& d, std::int64_t position) {
  std::int32_t id = 0;
  d.file().read(position, 1, &id);
  throw DataError(fmt::format("{}: token id {} at position {}: the model's vocabulary of {} has ids 0 to {}",
                              d.file().path(), id, position, d.vocab(), d.vocab() - 1));
}

}  // namespace

Dataset::Dataset(TokenFile file, shard::Range part, std::int64_t seq, std::int64_t vocab)
    : file_(std::move(file)), part_(part), seq_(seq), vocab_(vocab) {
  if (seq < 1 || vocab < 1)
    throw ConfigError(fmt::format("{}: sequences of {} tokens, a vocabulary of {}: expected 1 or more",
                                  file_.path(), seq, vocab));
  if (part.first < 0 || part.last < part.first || part.last > file_.tokens())
    throw DataError(
        fmt::format("{}: tokens [{}, {}): it has {}", file_.path(), part.first, part.last, file_.tokens()));
  if (part.size() < 2 || samples() < 1)
    throw DataError(
        fmt::format("{}: {} tokens (positions [{}, {}) of {}) are fewer than one sample: a sequence of {} "
                    "needs {} tokens",
                    file_.path(), part.size(), part.first, part.last, file_.tokens(), seq, seq + 1));
  if (const auto position = file_.find_id_not_below(vocab, part.first, part.last))
    refuse_id(*this, *position);
}

Dataset::Dataset(TokenFile file, std::int64_t seq, std::int64_t vocab)
    : Dataset(file, shard::Range{0, file.tokens()}, seq, vocab) {}

void Dataset::read(std::int64_t sample, std::int32_t* inputs, std::int32_t* targets) const {
  if (sample < 0 || sample >= samples())
    throw DataError(fmt::format("{}: sample {} of {}", file_.path(), sample, samples()));
  const std::int64_t first = part_.first + sample * seq_;
  file_.read(first, seq_, inputs);
  file_.read(first + 1, seq_, targets);
  const auto outside = [this](std::int32_t id) { return id < 0 || id >= vocab_; };
  // The header promised that none is: only data that changed since can fail here.
  if (outside(inputs[0])) refuse_id(*this, first);
  if (const auto it = std::find_if(targets, targets + seq_, outside); it != targets + seq_)
    refuse_id(*this, first + 1 + (it - targets));
}

std::pair<shard::Range, shard::Range> split_tokens(std::int64_t tokens, double share) {
  if (!(share > 0 && share <= 1))
    throw ConfigError(fmt::format("data.split = {}: expected above 0 and at most 1", share));
  const auto cut = static_cast<std::int64_t>(std::floor(share * static_cast<double>(tokens)));
  return {{0, cut}, {cut, tokens}};
}

DataSplit open_split(const std::string& train, const std::string& val, double share, std::int64_t seq,
                     std::int64_t vocab, bool want_val) {
  const TokenFile file = open_tokens(train);
  if (!val.empty()) {
    DataSplit split{Dataset(file, seq, vocab), std::nullopt};
    if (want_val) split.val.emplace(open_tokens(val), seq, vocab);
    return split;
  }
  const auto [first, rest] = split_tokens(file.tokens(), share);
  DataSplit split{Dataset(file, first, seq, vocab), std::nullopt};
  if (want_val) split.val.emplace(file, rest, seq, vocab);
  return split;
}

void check_batch(const char* what, const Tensor& t, std::int64_t count, std::int64_t seq) {
  const Shape rows{count, seq}, flat{count * seq};
  if (!t.defined() || t.dtype() != DType::i32 || t.device().type != DeviceType::cpu ||
      (t.shape() != rows && t.shape() != flat))
    throw ShapeError(fmt::format("{} of {} samples: expected i32{} or i32{} on cpu, got {}", what, count,
                                 rows.str(), flat.str(), t.str()));
}

void fill_samples(const Dataset& dataset, std::int64_t first, std::int64_t count, const Tensor& tokens,
                  const Tensor& targets) {
  const std::int64_t seq = dataset.seq();
  check_batch("tokens", tokens, count, seq);
  check_batch("targets", targets, count, seq);
  for (std::int64_t i = 0; i < count; ++i)
    dataset.read(first + i, tokens.as<std::int32_t>() + i * seq, targets.as<std::int32_t>() + i * seq);
}

}  // namespace shoal::data
