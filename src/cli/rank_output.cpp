#include "cli/rank_output.hpp"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace shoal::cli {
namespace {

constexpr std::size_t piece = std::size_t{64} << 10;

// Whose unfinished line stands last on standard output and standard error.
const RankOutput* unfinished[3] = {};

}  // namespace

RankOutput::RankOutput(comm::store::Fd from, std::string tag, int to)
    : from_(std::move(from)), tag_(std::move(tag)), to_(to) {
  ::fcntl(from_.get(), F_SETFL, O_NONBLOCK);
}

bool RankOutput::forward() {
  if (!from_) return false;
  char buffer[piece];
  const ssize_t n = ::read(from_.get(), buffer, sizeof buffer);
  if (n < 0) return false;  // nothing now
  if (n == 0) {
    flush();
    from_.reset();
    return false;
  }
  line_.append(buffer, static_cast<std::size_t>(n));
  // A carriage return ends what a progress line shows for now.
  const std::size_t end = line_.find_last_of("\n\r");
  if (end != std::string::npos) {
    const std::string rest = line_.substr(end + 1);
    line_.resize(end + 1);
    flush();
    line_ = rest;
  } else if (line_.size() > piece) {
    flush();
  }
  return true;
}

void RankOutput::flush() {
  if (line_.empty()) return;
  const std::string text = std::exchange(line_, {});
  std::string tagged;
  if (unfinished[to_] && unfinished[to_] != this) tagged = "\n";
  unfinished[to_] = text.back() == '\n' ? nullptr : this;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string line = text.substr(at, end - at);
    if (at_start_) tagged += tag_;
    tagged += line;
    at_start_ = line.back() == '\n';
    const std::size_t last = line.find_last_not_of("\n\r");
    if (last != std::string::npos) last_ = line.substr(0, last + 1);
    at = end;
  }
  write(tagged);
}

void RankOutput::write(const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(to_, text.data() + at, text.size() - at);
    if (n > 0) {
      at += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      pollfd p{to_, POLLOUT, 0};
      ::poll(&p, 1, -1);
    } else if (errno != EINTR) {
      return;  // nobody reads it any more
    }
  }
}

}  // namespace shoal::cli
