// Samples: windows of a token file, and the split of one file into a training and a validation part.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "shoal/core/tensor.hpp"
#include "shoal/data/token_file.hpp"
#include "shoal/shard/split.hpp"

namespace shoal::data {

// Sample i of the part [first, last) of a file is tokens [first + i seq, first + i seq + seq]: inputs are the
// first seq of them, targets the last seq, so that every target but the part's first token is learned once.
// samples() = (tokens - 1) / seq; up to seq - 1 tokens at the end are in no sample. Copies share the mapping.
class Dataset {
 public:
  // Throws DataError naming file and counts where the part makes no sample, and naming file, position, id and
  // vocabulary for the first id of the part that is not below `vocab` (a model's).
  Dataset(TokenFile file, shard::Range part, std::int64_t seq, std::int64_t vocab);
  Dataset(TokenFile file, std::int64_t seq, std::int64_t vocab);  // the whole file

  const TokenFile& file() const { return file_; }
  shard::Range part() const { return part_; }
  std::int64_t seq() const { return seq_; }
  std::int64_t vocab() const { return vocab_; }
  std::int64_t tokens() const { return part_.size(); }
  std::int64_t samples() const { return (tokens() - 1) / seq_; }

  // inputs and targets: seq elements each. Throws DataError for a sample that is not there, and for an id
  // that is not below the vocabulary (which only a damaged file can still hold).
  void read(std::int64_t sample, std::int32_t* inputs, std::int32_t* targets) const;

 private:
  TokenFile file_;
  shard::Range part_;
  std::int64_t seq_, vocab_;
};

// The training part, the first floor(share * tokens), and the rest. Throws ConfigError unless 0 < share <= 1.
std::pair<shard::Range, shard::Range> split_tokens(std::int64_t tokens, double share);

struct DataSplit {
  Dataset train;
  std::optional<Dataset> val;
};
// The data of a job: `val` a file of its own, or, where empty, the rest of `train` after its first `share`.
// want_val = false opens no validation part (but leaves it out of the training part all the same).
DataSplit open_split(const std::string& train, const std::string& val, double share, std::int64_t seq,
                     std::int64_t vocab, bool want_val = true);

// Samples first .. first + count - 1, in order: validation. tokens and targets: i32 on the host,
// [count, seq] or flat. Throws ShapeError for other tensors.
void fill_samples(const Dataset& dataset, std::int64_t first, std::int64_t count, const Tensor& tokens,
                  const Tensor& targets);

}  // namespace shoal::data
