#include "shoal/shard/layout.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "shoal/core/error.hpp"

namespace shoal::shard {

FlatLayout FlatLayout::make(const std::vector<PieceCount>& tensors) {
  FlatLayout layout;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const PieceCount& count = tensors[t];
    if (count.pieces < 0 || count.piece_numel < 0)
      throw ConfigError(
          fmt::format("tensor {} of a flat layout has {} pieces of {} elements: expected 0 or more", t,
                      count.pieces, count.piece_numel));
    for (std::int64_t p = 0; p < count.pieces; ++p) {
      layout.segments.push_back({static_cast<std::int64_t>(t), p, layout.numel, count.piece_numel});
      layout.numel += layout.segments.back().padded();
    }
  }
  return layout;
}

std::vector<Bucket> plan_buckets(const FlatLayout& layout, std::int64_t bucket_elements) {
  if (bucket_elements < 1)
    throw ConfigError(fmt::format("buckets of {} elements: expected 1 or more", bucket_elements));
  const std::int64_t limit = std::max(bucket_elements / chunk, std::int64_t{1}) * chunk;
  std::vector<Bucket> buckets;
  Bucket open;  // the one being filled, from its end downwards
  const auto close = [&] {
    if (open.segments.empty()) return;
    std::reverse(open.segments.begin(), open.segments.end());
    buckets.push_back(std::move(open));
    open = {};
  };
  for (std::int64_t s = static_cast<std::int64_t>(layout.segments.size()) - 1; s >= 0; --s) {
    const Segment& segment = layout.segments[s];
    const std::int64_t size = segment.padded(), end = segment.offset + size;
    if (size == 0) continue;
    if (size > limit) {  // nearly equal parts of its own, none above the limit
      close();
      const std::int64_t parts = (size + limit - 1) / limit;
      for (std::int64_t i = parts - 1; i >= 0; --i) {
        const Range part = split_aligned(size, parts, i, chunk);
        buckets.push_back({{segment.offset + part.first, segment.offset + part.last}, {s}});
      }
      continue;
    }
    if (open.elements.size() + size > limit) close();
    if (open.segments.empty()) open.elements.last = end;
    open.elements.first = segment.offset;
    open.segments.push_back(s);
  }
  close();
  return buckets;
}

}  // namespace shoal::shard
