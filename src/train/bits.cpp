#include "train/bits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "shoal/core/error.hpp"
#include "shoal/core/hash.hpp"
#include "train/hashes.hpp"
#include "train/host.hpp"

namespace shoal::train {
BitsRecorder::BitsRecorder(const std::string& run_dir, int rank)
    : path_(fmt::format("{}/bits/rank-{}.jsonl", run_dir, rank)), out_(path_), rank_(rank) {
  if (!out_) throw ConfigError(fmt::format("{}: cannot be written: {}", path_, std::strerror(errno)));
}

nn::Observer BitsRecorder::observer(std::int64_t step, std::int64_t sample, const Stream& stream) {
  seq_ = 0;
  return [this, step, sample, stream](const std::string& kind, const std::string& layer, const Tensor& t) {
    const std::vector<std::uint8_t> bytes = bytes_of(stream, t);
    const std::int64_t pieces = t.shape().rank() >= 3 ? t.dim(0) : 1;  // piece-major tensors
    const std::size_t size = pieces > 0 ? bytes.size() / static_cast<std::size_t>(pieces) : 0;
    for (std::int64_t p = 0; p < pieces; ++p) {
      line(step, Phase::microbatch, sample, seq_++, kind, layer, p,
           hash_bytes(bytes.data() + static_cast<std::size_t>(p) * size, size));
    }
  };
}

void BitsRecorder::number(std::int64_t step, Phase phase, const std::string& kind, double value) {
  if (rank_ == 0) line(step, phase, 0, 0, kind, "", 0, std::bit_cast<std::uint64_t>(value));
}

void BitsRecorder::parameters(std::int64_t step, Phase phase, const std::string& kind,
                              const parallel::FlatParameters& flat, const Tensor& values, bool partitioned,
                              const Stream& stream) {
  if (rank_ != 0 && !partitioned) return;
  const std::vector<shard::Range> all = {{0, flat.layout.numel}};
  std::vector<std::int64_t> hashes =
      segment_hashes(flat.layout, partitioned ? flat.owned : all, values, stream);
  if (partitioned) {
    const Tensor t = to_device(stream, hashes);
    flat.comm->all_reduce(t);
    hashes = to_host<std::int64_t>(stream, t);
  }
  if (rank_ != 0) return;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const shard::Segment& s = flat.layout.segments[i];
    line(step, phase, 0, static_cast<std::int64_t>(i), kind,
         flat.parameters[static_cast<std::size_t>(s.tensor)]->name, s.piece,
         static_cast<std::uint64_t>(hashes[i]));
  }
}

void BitsRecorder::line(std::int64_t step, Phase phase, std::int64_t sample, std::int64_t seq,
                        const std::string& kind, const std::string& layer, std::int64_t piece,
                        std::uint64_t hash) {
  nlohmann::ordered_json record;
  record["step"] = step;
  record["phase"] = static_cast<int>(phase);
  record["sample"] = sample;
  record["seq"] = seq;
  record["kind"] = kind;
  record["layer"] = layer;
  record["piece"] = piece;
  record["hash"] = hex(hash);
  out_ << record.dump() << '\n';
  if (!out_.flush()) throw TrainError(fmt::format("{}: cannot be written: {}", path_, std::strerror(errno)));
}

}  // namespace shoal::train
