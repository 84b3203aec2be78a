#include "cli/rank_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "shoal/core/error.hpp"

namespace shoal::cli {
namespace {

using comm::store::Fd;

std::array<Fd, 2> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw CommError(fmt::format("no pipe for a rank: {}", ::strerror(errno)));
  return {Fd(ends[0]), Fd(ends[1])};
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> p;
  for (const std::string& text : texts) p.push_back(const_cast<char*>(text.c_str()));
  p.push_back(nullptr);
  return p;
}

// In the child, where only what POSIX calls async-signal-safe may be done. Does not return.
[[noreturn]] void become(const char* file, char* const* arguments, char* const* environment, pid_t parent,
                         const int (&streams)[3], int report) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it died before the line above
  for (int i = 0; i < 3; ++i)
    if (streams[i] >= 0 && ::dup2(streams[i], i) < 0) ::_exit(127);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) ::signal(s, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(file, arguments, environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t n = ::write(report, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

std::string Ending::text() const {
  if (signal == 0) return fmt::format("exited with status {}", code);
  return fmt::format("was killed by signal {} ({})", signal, ::strsignal(signal));
}

RankProcess::RankProcess(const RankCommand& command) {
  auto out_pipe = make_pipe(), err_pipe = make_pipe(), report = make_pipe();
  const Fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::vector<char*> arguments = pointers(command.arguments),
                           environment = pointers(command.environment);
  const pid_t parent = ::getpid();
  const int streams[3] = {command.takes_stdin ? -1 : nothing.get(), out_pipe[1].get(), err_pipe[1].get()};
  pid_ = ::fork();
  if (pid_ < 0) throw CommError(fmt::format("no process for a rank: {}", ::strerror(errno)));
  if (pid_ == 0)
    become(command.file.c_str(), arguments.data(), environment.data(), parent, streams, report[1].get());
  ::setpgid(pid_, pid_);  // here too, so that it is done whoever comes first
  report[1].reset();
  int error = 0;
  ssize_t n;
  while ((n = ::read(report[0].get(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (n == static_cast<ssize_t>(sizeof error)) {
    ::waitpid(pid_, nullptr, 0);
    throw ConfigError(fmt::format(
        "{} cannot be executed: {}", command.file,
        error == ENOEXEC ? "it is neither a program nor a script whose first line is #! and its interpreter"
                         : ::strerror(error)));
  }
  out = RankOutput(std::move(out_pipe[0]), command.tag, STDOUT_FILENO);
  err = RankOutput(std::move(err_pipe[0]), command.tag, STDERR_FILENO);
}

RankProcess::~RankProcess() {
  if (!ending_ || ending_->failed()) ::kill(-pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void RankProcess::look() {
  if (ending_) return;
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
    return;
  ending_.emplace();
  (info.si_code == CLD_EXITED ? ending_->code : ending_->signal) = info.si_status;
}

void RankProcess::send(int signal) { ::kill(-pid_, signal); }

}  // namespace shoal::cli
