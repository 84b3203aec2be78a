// What ranks compare before a collective, and how a difference is told: in the same words on every rank.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "comm/request.hpp"

namespace shoal::comm {

// Plain data, sent as bytes.
struct Header {
  std::int64_t sequence = 0;  // collectives of this communicator so far
  std::int64_t count = 0;
  std::int64_t leaves = 0;
  std::int64_t first = 0, last = 0;  // not compared: a rank's run of leaves, or its color and key
  std::int32_t root = -1;
  Kind kind = Kind::barrier;
  DType dtype = DType::u8;
  ReduceOp reduce = ReduceOp::sum;
  std::uint8_t unused = 0;
};

Header header_of(const Operation& op, std::int64_t sequence);

// Throws CommError when the ranks' headers differ, or when runs of leaves do not cover the tree in rank
// order.
void require_same(const std::string& communicator, const std::vector<Header>& headers);

// "rank 3" or "ranks 0, 2, 3".
std::string rank_list(const std::vector<int>& ranks);

}  // namespace shoal::comm
