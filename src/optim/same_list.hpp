// Ranks that are about to exchange tensors see the same list of them.
#pragma once
#include <string>
#include <vector>

#include "shoal/comm/communicator.hpp"

namespace shoal::optim {

// Throws ConfigError on every rank alike where the lists differ, naming `what`, the first entry that does, and both
// ranks' entries. Collective; 8 bytes a rank travel where they are the same.
void require_same_list(Communicator& comm, const std::vector<std::string>& list, const std::string& what);

}  // namespace shoal::optim
