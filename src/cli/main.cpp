// The `shoal` command.
#include <algorithm>

#include "cli/commands.hpp"
#include "cli/report.hpp"
#include "shoal/core/build_info.hpp"

int main(int argc, char** argv) {
  using namespace shoal::cli;
  CLI::App app("Shoal: a distributed training runtime for transformer models", "shoal");
  app.set_version_flag("--version", "shoal " + shoal::version());
  app.require_subcommand(1);
  Action action;
  add_info(app, action);
  add_train(app, action);
  add_sample(app, action);
  add_data(app, action);
  add_diff(app, action);
  add_bench(app, action);
  add_run(app, action);
  try {
    std::vector<std::string> arguments = without_separator({argv + 1, argv + argc});
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
    app.parse(arguments);
  } catch (const CLI::Success& e) {
    return app.exit(e);  // --help, --version
  } catch (const CLI::RequiredError& e) {
    // CLI11 misses the command before it sees what stands in its place.
    if (app.get_subcommands().empty() && argc > 1 && argv[1][0] != '-')
      return report_usage(std::string("unknown command ") + argv[1]);
    return report_usage(e.what());
  } catch (const CLI::ParseError& e) {
    return report_usage(e.what());
  }
  try {
    return action();
  } catch (const std::exception& e) {
    return report(e, nullptr);
  }
}
