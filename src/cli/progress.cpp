#include "cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/text.hpp"

namespace shoal::cli {

bool on_terminal() {
  if (!isatty(STDOUT_FILENO)) return false;
  if (launch_info().launcher == "none") return true;
  // Open MPI gives ranks a pseudo-terminal whatever its own output is: look at the launcher's.
  std::error_code error;
  const auto target = std::filesystem::read_symlink(fmt::format("/proc/{}/fd/1", getppid()), error).string();
  return error || target.starts_with("/dev/pts/") || target.starts_with("/dev/tty");
}

std::string duration_text(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

Progress::Progress(std::int64_t steps, bool terminal) : steps_(steps), terminal_(terminal) {}

void Progress::start(const train::MemoryPrediction& m) {
  memory_ = m;
  fmt::print(
      "memory of a rank, predicted: parameters {}, gradients {}, optimizer {}, activations {}, other {}: {} "
      "in "
      "total\n",
      text::bytes(m.parameters), text::bytes(m.gradients), text::bytes(m.optimizer),
      text::bytes(m.activations), text::bytes(m.other), text::bytes(m.total()));
  std::fflush(stdout);
}

void Progress::notice(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void Progress::show(const train::Metrics& m) {
  last_ = m;
  if (first_ == 0) first_ = m.step;
  training_ += m.seconds;
  const auto now = Clock::now();
  const bool last = m.step == steps_;
  const auto every = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10000);
  if (!last && !m.val_loss && m.step != first_ && now - shown_ < every) return;
  shown_ = now;
  const double left =
      static_cast<double>(steps_ - m.step) * training_ / static_cast<double>(m.step - first_ + 1);
  const std::string line = fmt::format(
      "step {}/{}  loss {:.4f}  {:.0f} tokens/s  ETA {}{}", m.step, steps_, m.loss, m.tokens_per_second,
      duration_text(left), m.val_loss ? fmt::format("  validation loss {:.4f}", *m.val_loss) : "");
  if (terminal_)
    fmt::print("\r{:<90}{}", line, last || m.val_loss ? "\n" : "");  // evaluations stay on the screen
  else
    fmt::print("{}\n", line);
  std::fflush(stdout);
}

void Progress::finish(const std::string& run_dir, std::int64_t peak_bytes) {
  const double seconds = std::chrono::duration<double>(Clock::now() - begun_).count();
  fmt::print("done in {}; peak memory of a rank {} (predicted {}); records in {}\n", duration_text(seconds),
             text::bytes(std::max(peak_bytes, last_.peak_bytes)), text::bytes(memory_.total()), run_dir);
}

}  // namespace shoal::cli
