// What a job asks of one host, beside what that has.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "shoal/core/host_memory.hpp"
#include "shoal/train/trainer.hpp"

namespace shoal::train {

// Throws ConfigError where `ranks` of this host with `threads` each are far more threads than its `cores` can run:
// more than 16 a core, and than 256.
void check_threads(std::int64_t ranks, std::int64_t threads, int cores);

// A line where the predicted bytes of the host's ranks are more than it has available; ConfigError where they are more
// than all of it. Both name the numbers and the keys that would lower them.
std::optional<std::string> check_memory(const Job& resolved, const MemoryPrediction& rank, std::int64_t ranks,
                                        const HostMemory& host);

// Of this rank's host. A communicator of some of the launcher's processes may have any of them there.
struct Place {
  std::int64_t ranks = 1;  // at most
  bool first = true;       // no other rank of the host is sure to be first
};
Place place_of(const Communicator& comm);

}  // namespace shoal::train
