// How a thread waits for other ranks: a few pauses, then giving the core away, then short sleeps, so that a
// rank that waits for long does not take time from one that computes.
#pragma once
#include <sched.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <chrono>

namespace shoal::comm {

using Clock = std::chrono::steady_clock;

// To be asked now and then while waiting for other ranks (where Backoff::due() says so): true when what this thread
// runs in has been interrupted (set_interrupt_hook). The wait then fails on all ranks, with `interrupted_text`.
bool interrupted();
inline constexpr const char* interrupted_text = "interrupted while waiting";

inline void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

class Backoff {
 public:
  // crowded: more ranks than cores here, so that spinning only delays the rank that is waited for.
  // may_sleep: false while data is moved by polling.
  explicit Backoff(bool crowded, bool may_sleep = true) : spins_(crowded ? 20 : 100), may_sleep_(may_sleep) {}

  void pause() {
    ++rounds_;
    if (rounds_ < spins_) {
      relax();
    } else if (may_sleep_ && elapsed() > std::chrono::milliseconds(1)) {
      const timespec nap{0, 20000};
      ::nanosleep(&nap, nullptr);
      slept_ = true;
    } else {
      ::sched_yield();
    }
  }
  // True now and then: the moment for checks that cost more than a look at a flag.
  bool due() const { return rounds_ % 64 == 0 || slept_; }
  Clock::duration elapsed() const { return Clock::now() - start_; }

 private:
  const int spins_;
  const bool may_sleep_;
  bool slept_ = false;
  long rounds_ = 0;
  const Clock::time_point start_ = Clock::now();
};

}  // namespace shoal::comm
