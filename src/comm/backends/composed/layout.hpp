// Views of flat memory, and the cut of large buffers into segments that travel one behind the other.
#pragma once
#include <algorithm>
#include <cstdint>

#include "comm/host_communicator.hpp"
#include "shoal/core/tensor.hpp"

namespace shoal::comm::composed {

// What a rail sends at a time, in bytes: large enough for the network, small enough that the hosts' own work on one
// segment is done while the next one travels.
constexpr std::int64_t rail_bytes = std::int64_t{8} << 20;

// 16-bit sums are FP32 on the way, and rounded once at the end.
constexpr DType sum_type(DType t) { return t == DType::f16 || t == DType::bf16 ? DType::f32 : t; }

// `count` elements of `dtype`, `offset` bytes into `room`, which the view keeps alive.
inline Tensor typed(const Tensor& room, std::int64_t offset, DType dtype, std::int64_t count) {
  auto owner = std::make_shared<Tensor>(room);
  return Tensor::from_blob(static_cast<std::byte*>(room.data()) + offset, {count}, dtype, room.device(),
                           owner);
}

// So many bytes, rounded up so that what follows is aligned.
constexpr std::int64_t aligned(std::int64_t nbytes) { return (nbytes + 255) / 256 * 256; }

// Segment s of so many, of `count` elements.
struct Segments {
  std::int64_t count, segments;
  static Segments of(std::int64_t count, std::int64_t most) {
    return {count, std::max<std::int64_t>(1, (count + most - 1) / most)};
  }
  // The longest segment.
  std::int64_t most() const { return part_of(count, static_cast<int>(segments), 0).size; }
  Part operator[](std::int64_t s) const {
    return part_of(count, static_cast<int>(segments), static_cast<int>(s));
  }
};

}  // namespace shoal::comm::composed
