// `shoal diff`: where two runs first differ.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/report.hpp"
#include "shoal/train/diff.hpp"

namespace shoal::cli {

void add_diff(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "diff", "Where two runs first differ: exit code 0 the same, 1 different, 2 an error");
  struct Arguments {
    std::string a, b;
  };
  auto arguments = std::make_shared<Arguments>();
  command->add_option("RUN_A", arguments->a, "a run directory")->required();
  command->add_option("RUN_B", arguments->b, "another")->required();
  command->callback([&action, arguments] {
    action = [arguments]() -> int {
      try {
        const train::RunDiff diff = train::diff_runs(arguments->a, arguments->b);
        fmt::print("{}\n", diff.text);
        return diff.same ? 0 : 1;
      } catch (const std::exception& e) {
        report(e, nullptr);
        return exit_input;
      }
    };
  });
}

}  // namespace shoal::cli
