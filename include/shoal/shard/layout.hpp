// The flat layout of a list of tensors, and its cut into buckets (docs/numerics.md, R8).
#pragma once
#include <cstdint>
#include <vector>

#include "shoal/shard/split.hpp"

namespace shoal::shard {

inline constexpr std::int64_t chunk = 256;  // elements; segments start at and are padded to multiples

struct Segment {
  std::int64_t tensor = 0;  // index in the list given
  std::int64_t piece = 0;
  std::int64_t offset = 0;  // in the flat buffer, elements, a multiple of 256
  std::int64_t numel = 0;   // without padding
  std::int64_t padded() const { return round_up(numel, chunk); }
};

// One entry a tensor: how many pieces, and elements a piece.
struct PieceCount {
  std::int64_t pieces = 1;
  std::int64_t piece_numel = 0;
};

struct FlatLayout {
  std::vector<Segment> segments;  // tensors in order, pieces in order
  std::int64_t numel = 0;         // with padding, a multiple of 256
  static FlatLayout make(const std::vector<PieceCount>& tensors);
};

// A bucket is a contiguous range of the flat buffer, cut at a multiple of 256. Buckets are listed in the order
// in which they are ready in the backward pass: from the end of the buffer to its start.
struct Bucket {
  Range elements;
  std::vector<std::int64_t> segments;  // indices of the segments that overlap it
};

// Buckets of about `bucket_elements`, cut at segment boundaries unless one segment is larger than that.
std::vector<Bucket> plan_buckets(const FlatLayout& layout, std::int64_t bucket_elements);

}  // namespace shoal::shard
