// `shoal train`: runs a job on the ranks that were started, or, with comm.backend = "local", on threads.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/progress.hpp"
#include "cli/report.hpp"
#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/env.hpp"
#include "shoal/core/error.hpp"
#include "shoal/core/log.hpp"
#include "shoal/core/threads.hpp"
#include "shoal/train/trainer.hpp"
#include "train/host_check.hpp"

namespace shoal::cli {
namespace {

struct Arguments {
  std::vector<std::string> items;
  bool quiet = false, keys = false;
};

void train_rank(const train::Job& job, const std::shared_ptr<Communicator>& comm, bool quiet) {
  if (comm->size() > 1) log::set_rank(comm->rank());
  train::TrainerOptions options;
  options.on_notice = [](const std::string&) {};
  std::unique_ptr<Progress> progress;
  if (comm->rank() == 0 && !quiet) {
    progress = std::make_unique<Progress>(job.train.steps, on_terminal());
    options.on_notice = [&](const std::string& line) { progress->notice(line); };
    options.on_start = [&](const train::MemoryPrediction& m) { progress->start(m); };
    options.on_step = [&](const train::Metrics& m) { progress->show(m); };
  }
  train::Trainer trainer(job, comm, options);
  trainer.run();
  if (progress) progress->finish(trainer.job().run.dir, trainer.peak_bytes());
}

// A job file and keys, in any order. A name before '=' has no slash: with one it is the path of a file.
train::Job read_job(const std::vector<std::string>& items) {
  std::vector<std::string> overrides;
  std::string path;
  for (const std::string& item : items) {
    if (item.substr(0, item.find('/')).find('=') != std::string::npos) {
      overrides.push_back(item);
      continue;
    }
    if (!path.empty())
      throw ConfigError(
          fmt::format("two job files, {} and {}: expected one, and keys as train.steps=100", path, item));
    if (item.empty()) throw ConfigError("an empty argument: expected a job file or key=value");
    if (!item.ends_with(".toml") && !std::filesystem::exists(item))
      throw ConfigError(
          fmt::format("job file {}: No such file or directory (a key is given as key=value)", item));
    path = item;
  }
  return train::load_job(path, overrides);
}

int train(const Arguments& arguments) {
  if (arguments.keys) {
    if (train::launched_rank() == 0) fmt::print("{}", train::job_reference());
    return 0;
  }
  const train::Job job = read_job(arguments.items);
  CommOptions comm_options;
  comm_options.timeout = std::chrono::duration<double>(job.comm.timeout);
  comm_options.shared_buffers = job.comm.shared_buffers;
  const bool automatic = job.comm.backend == "auto";
  const bool local = job.comm.backend == "local" || (automatic && env::comm_backend() == "local");
  if (local && launch_info().world_size == 1) {  // ranks as threads; a launcher's are processes
    const std::int64_t ranks = std::max<std::int64_t>(1, job.parallel.data);
    train::check_threads(ranks, std::max(1, job.train.threads), hardware_threads());
    run_local(
        static_cast<int>(ranks),
        [&](const std::shared_ptr<Communicator>& comm) { train_rank(job, comm, arguments.quiet); },
        comm_options);
    return 0;
  }
  const std::shared_ptr<Communicator> world = make_world({job.comm.backend, comm_options});
  try {
    train_rank(job, world, arguments.quiet);
  } catch (const std::exception& e) {
    return report(e, world.get());
  }
  return 0;
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("train", "Run a job: shoal train JOB.toml [key=value ...]");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("job", arguments->items,
                      "a job file (may be left out), and keys: train.steps=100 optimizer.lr=1e-3");
  command->add_flag("--quiet,-q", arguments->quiet, "print nothing but errors");
  command->add_flag("--keys", arguments->keys, "print every key with its default and what it accepts");
  command->callback([&action, arguments] { action = [arguments] { return train(*arguments); }; });
}

}  // namespace shoal::cli
