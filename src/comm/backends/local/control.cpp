#include "comm/backends/local/control.hpp"

namespace shoal::comm::local {
namespace {

constexpr std::int64_t page = 4096;
std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }
const std::int64_t lane_stride = round_up(sizeof(Lane), page);

}  // namespace

Layout::Layout(int ranks, std::int64_t bytes) : size(ranks), stage_bytes(bytes) {
  slots = round_up(sizeof(Control), alignof(Slot));
  opened = slots + size * static_cast<std::int64_t>(sizeof(Slot));
  stages = round_up(opened + size * size * static_cast<std::int64_t>(sizeof(std::int32_t)), page);
  lanes = stages + size * 4 * stage_bytes;
  total = lanes + size * size * lane_stride;
}

std::int64_t Layout::lane_offset(int from, int to) const { return lanes + (from * size + to) * lane_stride; }

}  // namespace shoal::comm::local
