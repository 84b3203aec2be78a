// Watches the ranks of `shoal run` until all have ended.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cli/rank_process.hpp"

namespace shoal::cli {

struct Verdict {
  int rank = -1;   // the first that failed; -1: none
  Ending ending;   // of it
  int signal = 0;  // that this process got; then it counts, and not the ranks
};

class Supervisor {
 public:
  // Blocks the signals that it takes, also for threads made later.
  Supervisor();
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Passes the ranks' output on. When one fails (or a signal comes) the others are sent SIGTERM, and SIGKILL after
  // `grace`. reported: the rank that said it is the one to fail, if any; it may end by itself before the others are ended.
  Verdict watch(std::vector<std::unique_ptr<RankProcess>>& ranks, std::chrono::duration<double> grace,
                const std::function<std::optional<int>()>& reported);

 private:
  class Watch;
  comm::store::Fd signals_;
};

}  // namespace shoal::cli
