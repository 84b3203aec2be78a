// The commands of `shoal`. Each adds itself to the app and, when chosen, sets `action` to what it does.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>

namespace shoal::cli {

using Action = std::function<int()>;  // the exit code

void add_info(CLI::App& app, Action& action);
void add_train(CLI::App& app, Action& action);
void add_sample(CLI::App& app, Action& action);
void add_data(CLI::App& app, Action& action);
void add_diff(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);

}  // namespace shoal::cli
