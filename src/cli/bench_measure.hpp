// Times and checks one operation, on buffers that are taken in turn.
#pragma once
#include <memory>
#include <optional>

#include "cli/bench_collectives.hpp"
#include "cli/bench_options.hpp"

namespace shoal::cli::bench {

// Two blocks of memory, cut into buffers of which each operation takes the next, so that it finds them in memory and not
// in a cache: a block is at least as large as the last-level cache. Of buffers so small that this would take more than
// 1024 of them, 1024 are used.
class Rotation {
 public:
  static constexpr std::int64_t most = 1024;

  // Collective: all ranks ask for the same.
  Rotation(Communicator& comm, bool private_buffers, std::int64_t largest);
  Buffers at(const Problem& p, bool in_place, std::int64_t i) const;
  std::int64_t block_bytes() const { return first_.nbytes(); }

 private:
  Tensor first_, second_;
};

std::int64_t last_level_cache();  // bytes; 32 MiB where the system does not say

struct Measurement {
  double seconds = 0;                 // of one operation
  std::optional<std::int64_t> wrong;  // elements on all ranks; none when not checked
};

// Times o.iters operations in a row, after o.warmup, then checks o.check more. The same result on all ranks.
Measurement measure(Communicator& comm, const Problem& p, bool in_place, const Options& o,
                    const Rotation& rotation);

}  // namespace shoal::cli::bench
