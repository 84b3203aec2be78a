// `shoal bench comm --tune FILE`: the sizes at which a communicator should change its way on this machine.
#pragma once
#include <functional>

#include "cli/bench_options.hpp"

namespace shoal::cli::bench {

// Runs its body on every rank of a new world, whose tuning is read anew.
using InWorld = std::function<void(const std::function<void(Communicator&)>&)>;

// Tries for each threshold the values that may be best, one threshold after another, and writes those found to o.tune, as
// SHOAL_COMM_TUNING takes it. `writes`: this process is the one that writes and prints.
void tune(const Options& o, bool writes, const InWorld& in_world);

}  // namespace shoal::cli::bench
