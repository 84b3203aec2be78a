// Hashes of tensors, of any type, by their place and not by who holds them.
#pragma once
#include <cstdint>
#include <vector>

#include "shoal/core/tensor.hpp"
#include "shoal/shard/layout.hpp"

namespace shoal::train {

// The bytes of a tensor, on the host. Waits for the stream.
std::vector<std::uint8_t> bytes_of(const Stream& stream, const Tensor& t);

// One hash a segment of `layout`, of the elements of `flat` [layout.numel] that lie in `ranges` (cut at multiples of a
// chunk), padding left out. Hashes of disjoint ranges add up to that of their union.
std::vector<std::int64_t> segment_hashes(const shard::FlatLayout& layout,
                                         const std::vector<shard::Range>& ranges, const Tensor& flat,
                                         const Stream& stream);

}  // namespace shoal::train
