// `shoal info`: what this build and this machine have, and what is missing and why.
#include <fmt/format.h>

#include "cli/commands.hpp"
#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/build_info.hpp"
#include "shoal/core/cpu_info.hpp"
#include "shoal/core/text.hpp"
#include "shoal/core/threads.hpp"

namespace shoal::cli {
namespace {

int info() {
  fmt::print("shoal {}\n", version());
  fmt::print("build      {}\n", build_description());
  fmt::print("processor  {}, {} available\n", cpu_model(), text::count(hardware_threads(), "thread"));
  fmt::print("kernels    {}\n", name(isa()));
  fmt::print("\nfeatures\n");
  for (const Feature& f : build_features())
    fmt::print("  {:<8} {:<4} {}\n", f.name, f.present ? "yes" : "no", f.detail);
  fmt::print("\nbackends of communication\n");
  for (const BackendInfo& b : comm_backends())
    fmt::print("  {:<8} {:<4} {}\n", b.name, b.available ? "yes" : "no", b.detail);
  return 0;
}

}  // namespace

void add_info(CLI::App& app, Action& action) {
  app.add_subcommand("info", "What this build and this machine have, and what is missing and why")
      ->callback([&action] { action = info; });
}

}  // namespace shoal::cli
