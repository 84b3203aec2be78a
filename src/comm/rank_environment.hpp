// What a launcher of ours tells each rank, as launch.cpp reads it.
#pragma once
#include <string>
#include <vector>

namespace shoal::comm {

// NAME=value for each variable of rank `rank` of `size` on this host: this process's own, without what other launchers
// said, and with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, SHOAL_STORE, SHOAL_TOKEN, and OMP_NUM_THREADS where it is
// not set (this rank's share of the cores).
std::vector<std::string> rank_environment(int rank, int size, const std::string& store,
                                          const std::string& token);

// The file that a command means: itself with a slash in it, or the first executable of that name in PATH. Empty when
// there is none.
std::string find_program(const std::string& name);

}  // namespace shoal::comm
