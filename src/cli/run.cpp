// `shoal run`: starts the ranks of one host. They meet over a Store that this process serves on an abstract Unix socket:
// no port, nothing in the file system, and only processes of this user that know the token are let in.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/report.hpp"
#include "cli/supervise.hpp"
#include "comm/rank_environment.hpp"
#include "comm/store/server.hpp"
#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"

namespace shoal::cli {
namespace {

constexpr int most_ranks = 1024;

struct Arguments {
  int ranks = 0;
  bool tag = false;
  double grace = 5.0;
  std::vector<std::string> command;
};

// This program, whatever PATH says, for the name it has itself.
std::string executable_of(const std::string& name) {
  if (name == "shoal") return "/proc/self/exe";
  const std::string file = comm::find_program(name);
  if (file.empty()) throw ConfigError(fmt::format("program {}: no executable of that name in PATH", name));
  struct stat s {};
  if (::stat(file.c_str(), &s) != 0)
    throw ConfigError(fmt::format("program {}: {}", file, std::strerror(errno)));
  if (S_ISDIR(s.st_mode)) throw ConfigError(fmt::format("program {}: is a directory", file));
  if (::access(file.c_str(), X_OK) != 0)
    throw ConfigError(
        fmt::format("program {}: is not executable (chmod +x makes it so; for a script name its "
                    "interpreter: python3 {})",
                    file, name));
  return file;
}

std::string own_path() {
  std::string path(4096, '\0');
  const ssize_t n = ::readlink("/proc/self/exe", path.data(), path.size());
  if (n <= 0) throw ConfigError(fmt::format("/proc/self/exe: {}", std::strerror(errno)));
  path.resize(static_cast<std::size_t>(n));
  return path;
}

void check(const Arguments& a) {
  if (a.ranks < 1 || a.ranks > most_ranks)
    throw ConfigError(fmt::format("-n {}: expected 1 to {} ranks", a.ranks, most_ranks));
  if (!(a.grace >= 0 && a.grace <= 1e6))
    throw ConfigError(fmt::format("--grace {}: expected seconds, 0 or more", a.grace));
  if (a.command.empty()) throw ConfigError("no program: shoal run -n N PROGRAM [ARGUMENTS]");
  if (a.command[0].size() > 1 && a.command[0][0] == '-')
    throw ConfigError(fmt::format("unknown option {} (shoal run --help lists them)", a.command[0]));
  const LaunchInfo launch = launch_info();
  if (launch.world_size > 1)
    throw ConfigError(
        fmt::format("shoal run starts ranks itself, but this is rank {} of {} already (launched by {})",
                    launch.rank, launch.world_size, launch.launcher));
}

// Three descriptors a rank: two pipes, and a connection to the Store.
void need_descriptors(int ranks) {
  const rlim_t need = 3 * static_cast<rlim_t>(ranks) + 64;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= need) return;
  if (limit.rlim_max < need)
    throw ConfigError(fmt::format("-n {} needs {} open files, and at most {} are allowed (ulimit -Hn)", ranks,
                                  need, limit.rlim_max));
  limit.rlim_cur = need;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void say(const std::string& text) {
  const std::string line = text + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

// What the rank that failed said last; where all ranks had the same to say, rank 0 did.
void say_last(const RankProcess& failed, const RankProcess& first) {
  const std::string& own = failed.err.last_line();
  const std::string& text = own.empty() ? first.err.last_line() : own;
  if (!text.empty()) say(text);
}

int run(const Arguments& a) {
  check(a);
  std::string file = executable_of(a.command[0]);
  if (file == "/proc/self/exe") file = own_path();
  need_descriptors(a.ranks);
  Supervisor supervisor;
  const std::string token = make_store_token();
  comm::store::Address address;
  address.local = "shoal-" + make_store_token();
  const comm::store::Server server(address, token, a.ranks, StoreLimits());

  std::vector<std::unique_ptr<RankProcess>> ranks;
  for (int r = 0; r < a.ranks; ++r) {
    RankCommand command;
    command.file = file;
    command.arguments = a.command;
    command.environment = comm::rank_environment(r, a.ranks, server.address().text(), token);
    if (a.tag) command.tag = fmt::format("[{}] ", r);
    command.takes_stdin = r == 0 && ::isatty(STDIN_FILENO) == 0;
    ranks.push_back(std::make_unique<RankProcess>(command));
  }
  const Verdict verdict =
      supervisor.watch(ranks, std::chrono::duration<double>(a.grace), [&]() -> std::optional<int> {
        const auto failure = server.failure();
        if (!failure) return {};
        return failure->rank;
      });
  if (verdict.signal != 0) {
    say(fmt::format("shoal run: ended by signal {} ({})", verdict.signal, ::strsignal(verdict.signal)));
    return 128 + verdict.signal;
  }
  if (verdict.rank < 0) return 0;
  say(fmt::format("shoal run: rank {} {}{}", verdict.rank, verdict.ending.text(),
                  a.ranks > 1 ? "; the other ranks were ended" : ""));
  if (a.ranks > 1) say_last(*ranks[static_cast<std::size_t>(verdict.rank)], *ranks[0]);
  return verdict.ending.status();
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "run", "Start N ranks of a program on this host: shoal run -n N [options] PROGRAM [ARGUMENTS]");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("-n,--ranks", arguments->ranks, "how many ranks")->required();
  command->add_flag("--tag-output", arguments->tag, "put [rank] before each line that a rank writes");
  command->add_option(
      "--grace", arguments->grace,
      "seconds between SIGTERM and SIGKILL for the ranks that are left when one has failed (5)");
  command->prefix_command();  // what follows is the program's
  command->callback([&action, arguments, command] {
    action = [arguments, command] {
      arguments->command = command->remaining();
      return run(*arguments);
    };
  });
}

std::vector<std::string> without_separator(std::vector<std::string> arguments) {
  if (arguments.empty() || arguments[0] != "run") return arguments;
  for (std::size_t i = 1; i < arguments.size() && arguments[i][0] == '-'; ++i) {
    if (arguments[i] == "--") {
      arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
    if (arguments[i] == "-n" || arguments[i] == "--ranks" || arguments[i] == "--grace") ++i;  // and its value
  }
  return arguments;
}

}  // namespace shoal::cli
