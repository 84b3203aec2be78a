// What `shoal train` shows while it runs.
#pragma once
#include <chrono>
#include <string>

#include "shoal/train/trainer.hpp"

namespace shoal::cli {

bool on_terminal();  // of standard output; under mpirun, of mpirun's

std::string duration_text(double seconds);  // "1:02:03", "2:03"

// A line that is rewritten, on a terminal; else a plain line every ten seconds, at evaluations and at the
// end.
class Progress {
 public:
  Progress(std::int64_t steps, bool terminal);
  void start(const train::MemoryPrediction& memory);
  void notice(const std::string& line);
  void show(const train::Metrics& metrics);
  // peak_bytes: of this rank. The largest of all ranks is shown beside the prediction.
  void finish(const std::string& run_dir, std::int64_t peak_bytes);

 private:
  using Clock = std::chrono::steady_clock;
  std::int64_t steps_, first_ = 0;
  bool terminal_;
  train::MemoryPrediction memory_;
  train::Metrics last_;
  double training_ = 0;  // seconds in steps
  Clock::time_point begun_ = Clock::now(), shown_ = {};
};

}  // namespace shoal::cli
