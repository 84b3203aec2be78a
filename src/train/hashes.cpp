#include "train/hashes.hpp"

#include <algorithm>

#include "shoal/core/hash.hpp"

namespace shoal::train {

std::vector<std::uint8_t> bytes_of(const Stream& stream, const Tensor& t) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(t.nbytes()));
  copy(stream, t, Tensor::from_blob(bytes.data(), t.shape(), t.dtype(), Device{}));
  stream.synchronize();
  return bytes;
}

// Chunk hashes, seeded with the chunk's place in its segment, are added: the sum is the same however the
// chunks are shared among ranks.
std::vector<std::int64_t> segment_hashes(const shard::FlatLayout& layout,
                                         const std::vector<shard::Range>& ranges, const Tensor& flat,
                                         const Stream& stream) {
  const std::vector<std::uint8_t> bytes = bytes_of(stream, flat);
  const std::int64_t element = size_of(flat.dtype());
  std::vector<std::int64_t> hashes;
  for (const shard::Segment& s : layout.segments) {
    std::uint64_t sum = 0;
    for (const shard::Range& r : ranges) {
      const std::int64_t first = std::max(r.first, s.offset), last = std::min(r.last, s.offset + s.padded());
      for (std::int64_t e = first; e < last; e += shard::chunk) {
        const std::int64_t end = std::min(e + shard::chunk, s.offset + s.numel);  // without padding
        if (end > e)
          sum += hash_bytes(bytes.data() + e * element, static_cast<std::size_t>((end - e) * element),
                            static_cast<std::uint64_t>(e - s.offset));
      }
    }
    hashes.push_back(static_cast<std::int64_t>(sum));
  }
  return hashes;
}

}  // namespace shoal::train
