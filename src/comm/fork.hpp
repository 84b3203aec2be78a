// A child of fork() has this process's memory and none of its threads, and is no rank.
#pragma once

namespace shoal::comm {

// How many forks lie between the process that asks first and this one; a load.
int fork_depth();

}  // namespace shoal::comm
