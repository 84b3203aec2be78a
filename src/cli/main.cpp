// The `shoal` command.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/report.hpp"
#include "shoal/core/build_info.hpp"

namespace shoal::cli {
namespace {

std::string commands(const CLI::App& app) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands({}))
    names += (names.empty() ? "" : ", ") + command->get_name();
  return names;
}

// What is wrong with the command line, in words of this command.
std::string usage_error(const CLI::App& app, const CLI::ParseError& e,
                        const std::vector<std::string>& arguments) {
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) {  // CLI11 misses the command before it sees what stands in its place
    if (arguments.empty()) return fmt::format("which command? There are {} (shoal --help)", commands(app));
    const char* what = arguments[0].starts_with('-') ? "option" : "command";
    return fmt::format("unknown {} {}: the commands are {} (shoal --help)", what, arguments[0],
                       commands(app));
  }
  const CLI::App* command = chosen[0];
  std::string name = command->get_name();
  for (auto inner = command->get_subcommands(); !inner.empty(); inner = command->get_subcommands()) {
    command = inner[0];
    name += " " + command->get_name();
  }
  const std::string help = fmt::format("(shoal {} --help)", name);
  if (!dynamic_cast<const CLI::ExtrasError*>(&e)) return fmt::format("{}: {} {}", name, e.what(), help);
  const std::vector<std::string> extra = command->remaining(true);
  const std::string first = extra.empty() ? std::string() : extra[0];
  if (!first.starts_with('-')) return fmt::format("{}: one argument too many: {} {}", name, first, help);
  std::string hint;
  if (name == "train" && first.starts_with("--") && first.size() > 2)
    hint = "; keys of the job are given as train.steps=100, without dashes";
  return fmt::format("{}: unknown option {}{} {}", name, first, hint, help);
}

// `shoal help [COMMAND]` is `shoal [COMMAND] --help`.
std::vector<std::string> arguments_of(int argc, char** argv) {
  std::vector<std::string> arguments = without_separator({argv + 1, argv + argc});
  if (!arguments.empty() && arguments[0] == "help") {
    arguments.erase(arguments.begin());
    arguments.push_back("--help");
  } else if (arguments.size() == 1 && arguments[0] == "version") {
    arguments[0] = "--version";
  }
  return arguments;
}

int run(int argc, char** argv) {
  CLI::App app("Shoal: a distributed training runtime for transformer models", "shoal");
  app.set_version_flag("--version,-V", "shoal " + version());
  app.require_subcommand(1);
  Action action;
  add_info(app, action);
  add_train(app, action);
  add_sample(app, action);
  add_data(app, action);
  add_diff(app, action);
  add_bench(app, action);
  add_run(app, action);
  const std::vector<std::string> arguments = arguments_of(argc, argv);
  // Under a launcher every rank has the same to say, and one of them says it; train, bench and run
  // take all of them.
  const bool first = train::launched_rank() == 0;
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success& e) {
    return first ? app.exit(e) : 0;  // --help, --version
  } catch (const CLI::ParseError& e) {
    return report_usage(usage_error(app, e, arguments));
  }
  const auto of_all = [&](const char* command) { return app.got_subcommand(command); };
  if (!first && !of_all("train") && !of_all("bench") && !of_all("run")) return 0;
  try {
    return action();
  } catch (const std::exception& e) {
    return report(e, nullptr);
  }
}

}  // namespace
}  // namespace shoal::cli

int main(int argc, char** argv) { return shoal::cli::run(argc, argv); }
