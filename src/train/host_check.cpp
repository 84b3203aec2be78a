#include "train/host_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"
#include "shoal/core/text.hpp"

namespace shoal::train {

void check_threads(std::int64_t ranks, std::int64_t threads, int cores) {
  const std::int64_t limit = std::max<std::int64_t>(256, std::int64_t{16} * cores);
  const double asked = static_cast<double>(ranks) * static_cast<double>(threads);  // may not fit an integer
  if (asked <= static_cast<double>(limit)) return;
  throw ConfigError(fmt::format(
      "{} on this host x train.threads = {} are {:.0f} threads: with {} it takes {} at most (16 a core, or "
      "256): "
      "lower parallel.data (comm.backend = local makes that many ranks) or the launcher's rank count, or "
      "train.threads",
      text::count(ranks, "rank"), threads, asked, text::count(cores, "core"), limit));
}

std::optional<std::string> check_memory(const Job& job, const MemoryPrediction& rank, std::int64_t ranks,
                                        const HostMemory& host) {
  const double asked = static_cast<double>(ranks) * static_cast<double>(rank.total());
  const auto says = [&](const std::string& has) {
    std::string keys;
    if (job.train.micro_batch > 1)
      keys += fmt::format("train.micro_batch (now {}, for activations), ", job.train.micro_batch);
    if (job.parallel.zero == 0 && job.parallel.data > 1)
      keys += "parallel.zero = 1 (divides the optimizer's state), ";
    return fmt::format(
        "{} on this host x {} predicted (parameters {}, gradients {}, optimizer {}, activations {}) = {} of "
        "memory, "
        "and {}: what lowers it: {}{}model.layers, model.hidden, model.seq",
        text::count(ranks, "rank"), text::bytes(rank.total()), text::bytes(rank.parameters),
        text::bytes(rank.gradients), text::bytes(rank.optimizer), text::bytes(rank.activations),
        text::bytes(static_cast<std::int64_t>(std::min(asked, 9e18))), has, keys,
        ranks > 1 ? "fewer ranks a host, " : "");
  };
  if (host.total > 0 && asked > static_cast<double>(host.total))
    throw ConfigError(says(fmt::format("it has {} with swap", text::bytes(host.total))));
  if (host.available > 0 && asked > static_cast<double>(host.available))
    return says(fmt::format("{} of its {} are available: it may swap, or end for want of memory",
                            text::bytes(host.available), text::bytes(host.total)));
  return std::nullopt;
}

Place place_of(const Communicator& comm) {
  if (comm.backend() != "mpi") return {comm.size(), comm.rank() == 0};  // threads of this process
  const LaunchInfo launch = launch_info();
  if (comm.size() != launch.world_size)
    return {std::min<std::int64_t>(comm.size(), std::max(1, launch.local_size)), true};
  return {std::max(1, launch.local_size), launch.local_rank == 0};
}

}  // namespace shoal::train
