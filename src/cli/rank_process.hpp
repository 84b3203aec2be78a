// A rank that `shoal run` has started.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "cli/rank_output.hpp"

namespace shoal::cli {

struct RankCommand {
  std::string file;                    // to be executed
  std::vector<std::string> arguments;  // with the program's name first
  std::vector<std::string> environment;
  std::string tag;           // before each line of output
  bool takes_stdin = false;  // ours; else /dev/null
};

// How a process ended: exited with `code`, or by `signal`.
struct Ending {
  int code = 0, signal = 0;
  bool failed() const { return code != 0 || signal != 0; }
  int status() const { return signal ? 128 + signal : code; }  // as a shell says it
  std::string text() const;  // "exited with status 3", "was killed by signal 9 (Killed)"
};

// The process leads a group of its own, is killed when this process dies, and stays in the system's table until the
// object is gone, so that its number stays its own.
class RankProcess {
 public:
  // Throws ConfigError when the file cannot be executed, CommError when no process can be made.
  explicit RankProcess(const RankCommand& command);
  ~RankProcess();  // kills what is left of the group
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  const std::optional<Ending>& ending() const { return ending_; }
  void look();            // whether it has ended
  void send(int signal);  // to the whole group
  RankOutput out, err;

 private:
  pid_t pid_ = -1;
  std::optional<Ending> ending_;
};

}  // namespace shoal::cli
