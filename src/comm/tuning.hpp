// Sizes at which a communicator changes its way. The defaults were measured (benchmarks/comm); a file named by
// SHOAL_COMM_TUNING, read when a world is made, replaces them: lines "name = number", "#" begins a comment.
#pragma once
#include <cstdint>

namespace shoal::comm {

struct Tuning {
  std::int64_t inline_bytes = 4096;    // local: up to here a rank's data lies beside what it shows
  std::int64_t stage_bytes = 131072;   // local, staged: bytes a rank moves between two meetings
  std::int64_t whole_ranks = 2;        // local, staged: up to here each rank makes the whole of an all-reduce
  std::int64_t stream_bytes = 262144;  // local: results of this size and more are written past the caches
  // local: processes read private buffers of this size and more where they lie, and sum them there
  std::int64_t single_copy_bytes = 65536, single_copy_sum_bytes = 524288;
  std::int64_t direct = 1;  // local: 0: buffers are transferred in stages even where all ranks see them
};

// As the file says. Throws ConfigError naming the file, the line and what is wrong with it.
Tuning read_tuning();

}  // namespace shoal::comm
