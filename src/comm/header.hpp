// What ranks compare before a collective, and how a difference is told: in the same words on every rank.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "comm/request.hpp"

namespace shoal::comm {

// Plain data, sent as bytes.
struct Header {
  static constexpr int shown = 8;  // counts of the v forms that a message can show

  std::int64_t sequence = 0;  // collectives of this communicator so far
  std::int64_t count = 0;
  std::int64_t leaves = 0;
  std::int64_t first = 0, last = 0;  // not compared: a rank's run of leaves, or its color and key
  double scale = 1.0;                // not compared: this rank's, of a pre-scaled sum
  std::uint64_t counts_hash = 0;     // of a v form's counts; 0 without
  std::int32_t root = -1;
  Kind kind = Kind::barrier;
  DType dtype = DType::u8;
  ReduceOp reduce = ReduceOp::sum;
  std::uint8_t flags = 0;
  std::int64_t counts[shown] = {};

  static constexpr std::uint8_t scaled = 1, v = 2;
};

Header header_of(const Operation& op, std::int64_t sequence);

// Throws CommError when the ranks' headers differ, or when runs of leaves do not cover the tree in rank
// order.
void require_same(const std::string& communicator, const std::vector<Header>& headers);

// all_to_all_v: throws CommError unless rank q receives from r what r sends to q, for all q and r. sent(r, q) and
// received(q, r) are those counts.
template <class Sent, class Received>
void require_matching(const std::string& communicator, const Header& header, int ranks, const Sent& sent,
                      const Received& received);
[[noreturn]] void counts_differ(const std::string& communicator, const Header& header, int from, int to,
                                std::int64_t sent, std::int64_t received);

// The ranks' scales for a pre-scaled sum, in rank order; empty for anything else.
std::vector<double> scales_of(const std::vector<Header>& headers);

// "rank 3" or "ranks 0, 2, 3".
std::string rank_list(const std::vector<int>& ranks);

template <class Sent, class Received>
void require_matching(const std::string& communicator, const Header& header, int ranks, const Sent& sent,
                      const Received& received) {
  for (int r = 0; r < ranks; ++r)
    for (int q = 0; q < ranks; ++q)
      if (sent(r, q) != received(q, r)) counts_differ(communicator, header, r, q, sent(r, q), received(q, r));
}

}  // namespace shoal::comm
