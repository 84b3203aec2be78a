// The memory of the machine, or of the control group (container) that this process is confined to.
#pragma once
#include <cstdint>

namespace shoal {

struct HostMemory {
  std::int64_t total = 0;      // bytes of RAM and swap, or the group's limit where that is less; 0: not known
  std::int64_t available = 0;  // of RAM, without swapping
};
HostMemory host_memory();

}  // namespace shoal
