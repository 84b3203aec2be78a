#include "cli/supervise.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <cerrno>

#include "shoal/core/error.hpp"

namespace shoal::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds silence{100};    // after which an unfinished line is shown
constexpr std::chrono::milliseconds look_again{50};  // while the ranks are being ended
constexpr std::chrono::seconds own_end{2};  // for the rank that reported its failure to end by itself
constexpr std::chrono::seconds drain{1};    // for output of processes that outlive their rank

sigset_t taken() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) ::sigaddset(&set, s);
  return set;
}

}  // namespace

Supervisor::Supervisor() {
  const sigset_t set = taken();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = comm::store::Fd(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!signals_) throw CommError(fmt::format("signalfd: {}", ::strerror(errno)));
}

Supervisor::~Supervisor() = default;

class Supervisor::Watch {
 public:
  Watch(int signals, std::vector<std::unique_ptr<RankProcess>>& ranks, std::chrono::duration<double> grace,
        const std::function<std::optional<int>()>& reported)
      : signals_(signals),
        ranks_(ranks),
        grace_(std::chrono::duration_cast<Clock::duration>(grace)),
        reported_(reported) {}

  Verdict run() {
    while (!all_ended()) {
      wait(ending_ || first_ ? look_again : Clock::duration(std::chrono::hours(1)));
      take_signals();
      for (auto& r : ranks_) r->look();
      judge();
      end_them();
    }
    drain_output();
    return verdict();
  }

 private:
  bool all_ended() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& r) { return r->ending().has_value(); });
  }

  // Passes on what comes until a signal does, or the time is over.
  void wait(Clock::duration longest) {
    std::vector<pollfd> fds{{signals_, POLLIN, 0}};
    std::vector<RankOutput*> outputs;
    bool pending = false;
    for (auto& r : ranks_)
      for (RankOutput* o : {&r->out, &r->err})
        if (o->fd() >= 0) {
          fds.push_back({o->fd(), POLLIN, 0});
          outputs.push_back(o);
          pending = pending || o->pending();
        }
    const auto limit = pending ? std::min<Clock::duration>(longest, silence) : longest;
    const int n = ::poll(fds.data(), fds.size(),
                         static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(limit).count()));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (fds[i + 1].revents)
        outputs[i]->forward();
      else if (n == 0)
        outputs[i]->flush();
    }
  }

  void take_signals() {
    signalfd_siginfo info;
    while (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      if (info.ssi_signo == SIGCHLD) continue;
      if (signal_ != 0) kill_at_ = Clock::now();  // a second one: no more patience
      signal_ = static_cast<int>(info.ssi_signo);
    }
  }

  // The first rank that failed.
  void judge() {
    if (first_) return;
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (ranks_[r]->ending() && ranks_[r]->ending()->failed()) {
        first_ = r;
        seen_ = Clock::now();
        return;
      }
  }

  void end_them() {
    if (!ending_) {
      bool now = signal_ != 0;
      if (first_) {
        const auto r = reported_();
        const bool wait_for_it = r && !ranks_[static_cast<std::size_t>(*r)]->ending();
        now = now || !wait_for_it || Clock::now() > seen_ + own_end;
      }
      if (!now) return;
      ending_ = true;
      kill_at_ = std::min(kill_at_, Clock::now() + grace_);
      culprit_ = find_culprit();
      for (auto& r : ranks_) {
        r->send(SIGTERM);
        r->send(SIGCONT);  // one that is stopped could not take the other
      }
    }
    if (Clock::now() >= kill_at_)
      for (auto& r : ranks_)
        if (!r->ending()) r->send(SIGKILL);
  }

  std::optional<std::size_t> find_culprit() const {
    if (!first_) return {};
    if (const auto r = reported_()) {
      const auto& e = ranks_[static_cast<std::size_t>(*r)]->ending();
      if (e && e->failed()) return static_cast<std::size_t>(*r);
    }
    return first_;
  }

  void drain_output() {
    const auto end = Clock::now() + drain;
    const auto open = [this] {
      return std::any_of(ranks_.begin(), ranks_.end(),
                         [](const auto& r) { return r->out.fd() >= 0 || r->err.fd() >= 0; });
    };
    while (open() && Clock::now() < end) wait(end - Clock::now());
    for (auto& r : ranks_) {
      r->out.flush();
      r->err.flush();
    }
  }

  Verdict verdict() const {
    Verdict v;
    v.signal = signal_;
    const auto r = culprit_ ? culprit_ : find_culprit();
    if (r) {
      v.rank = static_cast<int>(*r);
      v.ending = *ranks_[*r]->ending();
    }
    return v;
  }

  const int signals_;
  std::vector<std::unique_ptr<RankProcess>>& ranks_;
  const Clock::duration grace_;
  const std::function<std::optional<int>()>& reported_;
  bool ending_ = false;
  int signal_ = 0;
  std::optional<std::size_t> first_, culprit_;
  Clock::time_point seen_{}, kill_at_ = Clock::time_point::max();
};

Verdict Supervisor::watch(std::vector<std::unique_ptr<RankProcess>>& ranks,
                          std::chrono::duration<double> grace,
                          const std::function<std::optional<int>()>& reported) {
  return Watch(signals_.get(), ranks, grace, reported).run();
}

}  // namespace shoal::cli
