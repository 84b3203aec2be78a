// One stream of one rank, passed on in whole lines, so that lines of several ranks do not mix.
#pragma once
#include <string>

#include "comm/store/fd.hpp"

namespace shoal::cli {

class RankOutput {
 public:
  RankOutput() = default;
  // from: the reading end of the rank's pipe. tag: before each line. to: where lines go (1 or 2).
  RankOutput(comm::store::Fd from, std::string tag, int to);

  int fd() const { return from_.get(); }  // -1 once the rank has closed it
  // Reads and passes on what is there; false when nothing was.
  bool forward();
  // Passes on a line that has no end yet: after a moment of silence, and at the end.
  void flush();
  bool pending() const { return !line_.empty(); }
  const std::string& last_line() const { return last_; }

 private:
  void write(const std::string& text);
  comm::store::Fd from_;
  std::string tag_, line_, last_;
  int to_ = 1;
  bool at_start_ = true;  // of a line
};

}  // namespace shoal::cli
