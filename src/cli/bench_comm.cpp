// `shoal bench comm`: the speed of collectives, with nccl-tests' flags and columns, and checked results.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "cli/bench_report.hpp"
#include "cli/bench_tune.hpp"
#include "cli/bench_values.hpp"
#include "cli/commands.hpp"
#include "cli/report.hpp"
#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"

namespace shoal::cli {
namespace {

using namespace bench;

std::vector<Problem> problems(const Options& o, const Communicator& comm) {
  std::vector<Problem> all;
  Problem p;
  p.collective = o.collective;
  p.rank = comm.rank();
  p.ranks = comm.size();
  const std::vector<int> roots = p.rooted() ? o.roots(p.ranks) : std::vector{0};
  const std::vector<Reduction> ops = p.reduces() ? o.reductions : std::vector{Reduction()};
  for (const DType dtype : o.dtypes)
    for (const Reduction op : ops)
      for (const int root : roots)
        for (const std::int64_t size : o.sizes) {
          if (!takes(dtype, op)) continue;  // of -d all
          p.dtype = dtype;
          p.op = op.scaled ? Reduction(op.op, scale_of(p.rank)) : op;
          p.root = root;
          p.count = Problem::count_of(p.collective, size, dtype, p.ranks);
          all.push_back(p);
        }
  return all;
}

// True when every result was right; the same on all ranks.
bool bench_rank(const Options& o, Communicator& comm) {
  if (o.collective == Collective::sendrecv && comm.size() == 1)
    throw ConfigError("--op sendrecv needs two ranks or more: start them with mpirun, or give --ranks");
  const std::vector<Problem> all = problems(o, comm);
  std::int64_t largest = 0;
  for (const Problem& p : all) largest = std::max(largest, p.nbytes());
  const Rotation rotation(comm, o.private_buffers, largest);
  std::unique_ptr<Report> report;
  if (comm.rank() == 0) report = std::make_unique<Report>(o, comm, all, rotation.block_bytes());
  bool right = true;
  for (const Problem& p : all) {
    std::optional<Measurement> found[2];
    for (const bool in_place : {false, true}) {
      if (!p.has(in_place)) continue;
      found[in_place] = measure(comm, p, in_place, o, rotation);
      right = right && found[in_place]->wrong.value_or(0) == 0;
    }
    if (report) report->add(p, found[0], found[1]);
  }
  if (report) report->finish();
  return right;
}

int bench_comm(Options o) {
  resolve(o);
  CommOptions comm_options;
  if (o.timeout > 0) comm_options.timeout = std::chrono::duration<double>(o.timeout);
  if (o.ranks > 0) {
    if (const LaunchInfo launch = launch_info(); launch.world_size > 1)
      throw ConfigError(
          fmt::format("--ranks {} makes ranks in one process, but this is process {} of {} that a launcher "
                      "({}) started: leave "
                      "--ranks out under it, or start one process",
                      o.ranks, launch.rank, launch.world_size, launch.launcher));
    const auto in_world = [&](const auto& body) {
      run_local(
          o.ranks, [&](const std::shared_ptr<Communicator>& comm) { body(*comm); }, comm_options);
    };
    if (!o.tune.empty()) return tune(o, true, in_world), 0;
    std::atomic<bool> right{true};
    in_world([&](Communicator& comm) {
      if (!bench_rank(o, comm)) right = false;
    });
    return right ? 0 : exit_failure;
  }
  std::shared_ptr<Communicator> world = make_world({"auto", comm_options});
  try {
    if (o.tune.empty()) return bench_rank(o, *world) ? 0 : exit_failure;
    if (world->size() == 1)
      throw ConfigError("--tune needs two ranks or more: start them with mpirun, or give --ranks");
    tune(o, world->rank() == 0, [&](const auto& body) {
      world = nullptr;
      world = make_world({"auto", comm_options});
      body(*world);
    });
    return 0;
  } catch (const std::exception& e) {
    return report(e, world.get());
  }
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("bench", "Measure this machine");
  command->require_subcommand(1);
  auto* comm = command->add_subcommand(
      "comm", "Collectives: nccl-tests' flags and columns; run it under mpirun, or with --ranks");
  auto options = std::make_shared<Options>();
  add_options(*comm, *options);
  comm->callback([&action, options] { action = [options] { return bench_comm(*options); }; });
}

}  // namespace shoal::cli
