// What the launcher said. The only place that reads launch variables of others.
#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <optional>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/comm/store.hpp"
#include "shoal/core/env.hpp"
#include "shoal/core/error.hpp"

namespace shoal {
namespace {

std::optional<int> number(const char* name) {
  const char* text = std::getenv(name);
  if (!text || !*text) return std::nullopt;
  int value = 0;
  const std::string s(text);
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
  if (error != std::errc() || end != s.data() + s.size() || value < 0)
    throw ConfigError(fmt::format("{}={}: expected a whole number, 0 or above", name, s));
  return value;
}

// One launcher's names; null where it has none.
struct Names {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

constexpr Names openmpi{"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                        "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names mpich{"mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr Names environment{"environment", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};

std::optional<LaunchInfo> read(const Names& names) {
  const auto rank = number(names.rank), size = number(names.size);
  if (!rank && !size) return std::nullopt;
  if (!rank && *size == 1) return LaunchInfo{.launcher = names.launcher};
  if (!size)
    throw ConfigError(
        fmt::format("{}={} is set, but {} is missing: start all ranks with one launcher, or set both",
                    names.rank, *rank, names.size));
  if (!rank)
    throw ConfigError(
        fmt::format("{}={} is set, but {} is missing: start all ranks with one launcher, or set both",
                    names.size, *size, names.rank));
  if (*rank >= *size)
    throw ConfigError(
        fmt::format("{}={} and {}={} contradict each other", names.rank, *rank, names.size, *size));
  LaunchInfo info;
  info.launcher = names.launcher;
  info.rank = *rank;
  info.world_size = *size;
  const auto local_rank = number(names.local_rank), local_size = number(names.local_size);
  if (local_rank) info.local_rank = *local_rank;
  info.local_size = local_size.value_or(info.local_rank + 1);
  if (info.local_rank >= info.local_size)
    throw ConfigError(fmt::format("{}={} and {}={} contradict each other", names.local_rank, info.local_rank,
                                  names.local_size, info.local_size));
  return info;
}

// srun sets SLURM_STEP_ID for each of its tasks. An allocation (salloc, sbatch) also has SLURM_NTASKS, and a
// batch script SLURM_PROCID=0, but nothing was launched there.
std::optional<LaunchInfo> read_slurm() {
  const auto rank = number("SLURM_PROCID");
  const bool step = std::getenv("SLURM_STEP_ID") != nullptr;
  if (!rank || (!step && *rank == 0)) return std::nullopt;
  auto size = number("SLURM_STEP_NUM_TASKS");
  if (!size) size = number("SLURM_NTASKS");
  if (!size)
    throw ConfigError(
        fmt::format("SLURM_PROCID={} is set, but SLURM_NTASKS is missing: start the ranks with srun", *rank));
  if (*rank >= *size)
    throw ConfigError(fmt::format("SLURM_PROCID={} and SLURM_NTASKS={} contradict each other", *rank, *size));
  if (*size == 1) return std::nullopt;
  LaunchInfo info;
  info.launcher = "slurm";
  info.rank = *rank;
  info.world_size = *size;
  info.local_rank = number("SLURM_LOCALID").value_or(0);
  info.local_size = info.local_rank + 1;
  return info;
}

void require_agreement(const LaunchInfo& a, const LaunchInfo& b) {
  if (a.rank != b.rank || a.world_size != b.world_size)
    throw ConfigError(
        fmt::format("the environment contradicts itself: {} says rank {} of {}, but RANK and WORLD_SIZE "
                    "say rank {} of {}",
                    a.launcher, a.rank, a.world_size, b.rank, b.world_size));
}

}  // namespace

LaunchInfo launch_info() {
  std::optional<LaunchInfo> info = read(openmpi);
  if (!info) info = read(mpich);
  if (!info) info = read_slurm();
  if (!info)
    if (const auto rank = number("PMIX_RANK"))
      throw ConfigError(
          fmt::format("PMIX_RANK={} is set, but the number of ranks is not: OMPI_COMM_WORLD_SIZE or "
                      "SLURM_NTASKS is missing",
                      *rank));
  const std::optional<LaunchInfo> plain = read(environment);
  if (info && plain) require_agreement(*info, *plain);
  if (!info) info = plain;
  if (info) return *info;
  LaunchInfo none;
  none.launcher = "none";
  return none;
}

StoreOptions store_options(const LaunchInfo& launch, std::chrono::duration<double> timeout) {
  StoreOptions options;
  options.rank = launch.rank;
  options.size = launch.world_size;
  options.timeout = timeout;
  options.token = store_token();
  if (const auto store = env::store()) {  // of the launcher, which serves it
    options.address = *store;
    options.serve = false;
    return options;
  }
  const char* host = std::getenv("MASTER_ADDR");
  const auto port = number("MASTER_PORT");
  const bool has_host = host && *host;
  if (!has_host || !port)
    throw ConfigError(
        fmt::format("{} missing: the address and a free port of the host of rank 0, where the ranks meet",
                    !has_host && !port ? "MASTER_ADDR and MASTER_PORT are"
                    : has_host         ? "MASTER_PORT is"
                                       : "MASTER_ADDR is"));
  if (*port < 1 || *port > 65535)
    throw ConfigError(fmt::format("MASTER_PORT={}: expected 1 to 65535", *port));
  std::string name = host;
  if (name.find(':') != std::string::npos && name[0] != '[') name = "[" + name + "]";  // IPv6
  options.address = fmt::format("{}:{}", name, *port);
  return options;
}

}  // namespace shoal
