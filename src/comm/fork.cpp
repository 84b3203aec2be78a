#include "comm/fork.hpp"

#include <pthread.h>

#include <atomic>

namespace shoal::comm {
namespace {

std::atomic<int> depth{0};

}  // namespace

int fork_depth() {
  static const int watched =
      ::pthread_atfork(nullptr, nullptr, [] { depth.fetch_add(1, std::memory_order_relaxed); });
  (void)watched;
  return depth.load(std::memory_order_relaxed);
}

}  // namespace shoal::comm
