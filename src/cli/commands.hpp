// The commands of `shoal`. Each adds itself to the app and, when chosen, sets `action` to what it does.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace shoal::cli {

using Action = std::function<int()>;  // the exit code

void add_info(CLI::App& app, Action& action);
void add_train(CLI::App& app, Action& action);
void add_sample(CLI::App& app, Action& action);
void add_data(CLI::App& app, Action& action);
void add_diff(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);

// The arguments of `shoal`, without the "--" that may stand before the program of `shoal run`, which CLI11 would not pass
// over.
std::vector<std::string> without_separator(std::vector<std::string> arguments);

}  // namespace shoal::cli
