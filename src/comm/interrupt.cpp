#include <atomic>

#include "comm/wait.hpp"
#include "shoal/comm/communicator.hpp"

namespace shoal {
namespace {
std::atomic<bool (*)()> the_hook{nullptr};
}  // namespace

void set_interrupt_hook(bool (*hook)()) { the_hook.store(hook, std::memory_order_release); }

bool comm::interrupted() {
  bool (*const hook)() = the_hook.load(std::memory_order_acquire);
  return hook && hook();
}

}  // namespace shoal
