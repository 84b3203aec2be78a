// The record of each rank's last operations, in the control block, so that any rank can say where the others were.
#include <fmt/format.h>

#include "comm/backends/local/group.hpp"

namespace shoal::comm::local {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;

std::int64_t pack(const Header& h) {
  return static_cast<std::int64_t>(h.kind) | static_cast<std::int64_t>(h.dtype) << 8 |
         static_cast<std::int64_t>(h.reduce) << 16 | static_cast<std::int64_t>(h.root) << 32;
}

std::string text_of(const Flight& f) {
  const std::int64_t what = f.what.load(relaxed);
  Operation op;
  op.kind = static_cast<Kind>(what & 0xff);
  op.dtype = static_cast<DType>(what >> 8 & 0xff);
  op.reduce = static_cast<ReduceOp>(what >> 16 & 0xff);
  op.root = static_cast<int>(what >> 32);
  op.count = f.count.load(relaxed);
  const std::int64_t sequence = f.sequence.load(relaxed);
  return sequence < 0 ? describe(op) : fmt::format("{} (operation {})", describe(op), sequence);
}

}  // namespace

void Group::begin_flight(const Header& header) {
  Slot& s = slot(rank);
  const std::int64_t k = s.flown.load(relaxed);
  Flight& f = s.flight[k % flights];
  f.sequence.store(header.sequence, relaxed);
  f.count.store(header.count, relaxed);
  f.what.store(pack(header), relaxed);
  f.state.store(Flight::waiting, relaxed);
  s.flown.store(k + 1, std::memory_order_release);
}

void Group::set_flight(Flight::State state) {
  Slot& s = slot(rank);
  s.flight[(s.flown.load(relaxed) - 1) % flights].state.store(state, relaxed);
}

std::string Group::whereabouts(int r) const {
  const Slot& s = slot(r);
  const std::int64_t k = s.flown.load(std::memory_order_acquire);
  if (k == 0) return fmt::format("rank {}: before its first operation", r);
  const Flight& f = s.flight[(k - 1) % flights];
  const bool done = f.state.load(relaxed) == Flight::done;
  return fmt::format("rank {}: {} {}", r, done ? "after" : "in", text_of(f));
}

std::string Group::flight_record() const {
  constexpr const char* states[] = {"", "waits for the others", "runs", "done"};
  std::string text = fmt::format("communicator {}: the last operations of each rank:", about.name);
  for (int r = 0; r < size; ++r) {
    const std::int64_t k = slot(r).flown.load(std::memory_order_acquire);
    for (std::int64_t i = k > flights ? k - flights : 0; i < k; ++i) {
      const Flight& f = slot(r).flight[i % flights];
      text += fmt::format("\n  rank {}: {}: {}", r, text_of(f), states[f.state.load(relaxed) & 3]);
    }
    if (k == 0) text += fmt::format("\n  rank {}: none", r);
  }
  return text;
}

}  // namespace shoal::comm::local
