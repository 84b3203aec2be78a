#include "train/bits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "shoal/core/error.hpp"
#include "shoal/core/hash.hpp"
#include "train/host.hpp"

namespace shoal::train {
namespace {

// The bytes of a tensor, on the host.
std::vector<std::uint8_t> bytes_of(const Stream& stream, const Tensor& t) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(t.nbytes()));
  copy(stream, t, Tensor::from_blob(bytes.data(), t.shape(), t.dtype(), Device{}));
  stream.synchronize();
  return bytes;
}

// Chunk hashes, seeded with the chunk's place in its segment, are added: the sum is the same however the
// chunks are shared among ranks.
std::vector<std::int64_t> segment_hashes(const shard::FlatLayout& layout,
                                         const std::vector<shard::Range>& owned, std::int64_t element,
                                         const std::vector<std::uint8_t>& flat) {
  std::vector<std::int64_t> hashes;
  for (const shard::Segment& s : layout.segments) {
    std::uint64_t sum = 0;
    for (const shard::Range& r : owned) {
      const std::int64_t first = std::max(r.first, s.offset), last = std::min(r.last, s.offset + s.padded());
      for (std::int64_t e = first; e < last; e += shard::chunk) {
        const std::int64_t end =
            std::min(e + shard::chunk, s.offset + s.numel);  // without the segment's padding
        if (end > e)
          sum += hash_bytes(flat.data() + e * element, static_cast<std::size_t>((end - e) * element),
                            static_cast<std::uint64_t>(e - s.offset));
      }
    }
    hashes.push_back(static_cast<std::int64_t>(sum));
  }
  return hashes;
}

}  // namespace

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
  std::vector<std::int64_t> hashes = segment_hashes(flat.layout, partitioned ? flat.owned : all,
                                                    size_of(values.dtype()), bytes_of(stream, values));
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
