// Memory that all ranks of a communicator see, where these are processes.
#pragma once
#include <memory>

#include "comm/backends/local/group.hpp"
#include "shoal/core/allocator.hpp"

namespace shoal::comm::local {

// The allocator of a rank: shared segments, or this process's own memory where the options say so. Allocating is
// collective: ranks compare sizes, take a freed block of that size where all have one, and make one segment with a piece
// for each rank otherwise. Errors are the same on all ranks: CommError for sizes that differ, DeviceError naming the
// size where there is no space (the communicator goes on). Freed blocks are kept for the next request of their size.
std::shared_ptr<Allocator> make_allocator(std::shared_ptr<Group> group);

}  // namespace shoal::comm::local
