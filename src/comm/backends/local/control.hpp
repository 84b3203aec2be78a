// The plain memory through which the ranks of one communicator meet: on the heap when they are threads of one process,
// in shared memory when they are processes of one host. Nothing in it points anywhere, and all that changes while
// another rank looks is atomic. All zero is how it begins.
//
//   Control | slots, one a rank | which lanes are open | stages, one a rank | lanes, one for each pair of ranks
//
// Stages and lanes get memory behind them only when they are first used (Block::commit).
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "comm/header.hpp"

namespace shoal::comm::local {

// Where a rank's buffer lies, for the others.
struct BufferRef {
  static constexpr std::int64_t unseen = -1;  // in this rank's own memory
  static constexpr std::int64_t apart =
      -2;  // there too, at the address `offset`: others can read it by a system call
  static constexpr std::int64_t address = 0;  // ranks are threads: `offset` is the pointer
  std::int64_t segment;                       // otherwise the number of a shared segment
  std::int64_t offset;
  bool seen() const { return segment >= 0; }
  bool readable() const { return segment != unseen; }
};

// What a rank shows at a meeting. Two of them alternate, so that a rank may show the next one while others still
// read this one; it has come to meeting m when arrived >= m in the one of m's parity.
struct Show {
  static constexpr std::int64_t inline_bytes = 4096;
  static constexpr int most_nodes = 128, most_counts = 128;

  std::atomic<std::int64_t> arrived;
  Header header;
  BufferRef in, out;
  std::int64_t window;  // elements of each part that a step moves (staged.cpp)
  std::int64_t steps;   // as many as this rank's data needs
  std::int32_t nodes;   // -1: more than most_nodes
  std::int32_t shown;   // Shown
  alignas(64) std::byte data[inline_bytes];
  union {
    BufferRef node[most_nodes];
    std::int64_t counts[2][most_counts];  // of all_to_all_v: what it sends to each rank, and expects of each
  };
};
// What a rank has put where the others see it before they meet: nothing but its buffers (which all see, or can read by a
// system call), all its data beside its header, or the first step of it in its stage.
enum Shown : std::int32_t { shown_buffers, shown_apart, shown_inline, shown_in_stage };

// One operation in a rank's record (flight.hpp).
struct Flight {
  enum State : std::int64_t { empty, waiting, running, done };
  std::atomic<std::int64_t> sequence, count, what, state;
};
constexpr int flights = 32;

constexpr int channels = 2;
enum Channel : int { operations, memory };  // allocations are ordered among themselves only

struct alignas(128) Slot {
  Show shows[channels][2];
  alignas(128) std::atomic<std::int32_t> gone;  // the rank does not come back (root group)
  std::atomic<std::int64_t> flown;              // operations begun
  Flight flight[flights];
};

// The first failure of a group. First come, first told: the text is there when state is `told`.
struct FailureRecord {
  enum State : std::int32_t { none, telling, told };
  static constexpr int room = 8160;
  std::atomic<std::int32_t> state;
  std::int32_t kind;
  std::int32_t rank;  // who saw it
  char text[room];
};

// The bytes between the two sides of one pair of ranks (lane.hpp).
struct Lane {
  static constexpr std::int64_t room = 262144;  // bytes
  alignas(128) std::atomic<std::int64_t> written;
  alignas(128) std::atomic<std::int64_t> read;
  alignas(128) std::atomic<std::int64_t> direct;  // 4 x the number of such messages + the last one's state
  alignas(128) std::byte bytes[room];
};

struct alignas(128) Control {
  static constexpr std::uint64_t broken = std::uint64_t{1} << 63;

  std::atomic<std::int32_t> unwinding;  // 1 + the first rank of the root group that gave up work under way
  std::atomic<std::int64_t> segments;   // numbers given so far (root group)
  alignas(128) std::atomic<std::uint64_t> committed;  // the last meeting that takes place, and `broken`
  alignas(128) FailureRecord failure;
};
static_assert(std::is_trivially_copyable_v<Header> && std::is_standard_layout_v<Show>);
static_assert(std::atomic<std::int64_t>::is_always_lock_free &&
              std::atomic<std::int32_t>::is_always_lock_free);

// Where the parts of a control block lie, in bytes from its start.
struct Layout {
  std::int64_t size = 0, stage_bytes = 0;
  std::int64_t slots = 0, opened = 0, stages = 0, lanes = 0, total = 0;

  // stage_bytes: of each of a rank's two stages, a multiple of 4096.
  Layout(int ranks, std::int64_t stage_bytes);

  Slot& slot(Control* c, int rank) const {
    return reinterpret_cast<Slot*>(reinterpret_cast<std::byte*>(c) + slots)[rank];
  }
  // A rank's stage for meetings of one parity, and the room for results behind the two.
  std::byte* stage(Control* c, int rank, int parity) const {
    return reinterpret_cast<std::byte*>(c) + stages + (rank * 4 + parity) * stage_bytes;
  }
  std::byte* result(Control* c, int rank, int parity) const { return stage(c, rank, 2 + parity); }
  std::int64_t stage_offset(int rank) const { return stages + rank * 4 * stage_bytes; }
  // Whether there is memory behind a lane: to be asked before it is touched.
  std::atomic<std::int32_t>& lane_open(Control* c, int from, int to) const {
    return reinterpret_cast<std::atomic<std::int32_t>*>(reinterpret_cast<std::byte*>(c) +
                                                        opened)[from * size + to];
  }
  std::int64_t lane_offset(int from, int to) const;
  Lane& lane(Control* c, int from, int to) const {
    return *reinterpret_cast<Lane*>(reinterpret_cast<std::byte*>(c) + lane_offset(from, to));
  }
};

}  // namespace shoal::comm::local
