#include "shoal/comm/bootstrap.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "comm/backends/backends.hpp"
#include "comm/host_communicator.hpp"
#include "comm/store/host_world.hpp"
#include "shoal/comm/store.hpp"
#include "shoal/core/env.hpp"
#include "shoal/core/error.hpp"

namespace shoal {
namespace {

void require_mpi(const LaunchInfo& launch) {
  const BackendInfo mpi = comm::mpi::info();
  if (!mpi.available)
    throw ConfigError(
        fmt::format("rank {} of {} (launched by {}) cannot meet the others: the mpi backend is not "
                    "available: {}",
                    launch.rank, launch.world_size, launch.launcher, mpi.detail));
}

std::shared_ptr<Communicator> make_mpi(const LaunchInfo& launch, const CommOptions& options) {
  require_mpi(launch);
  return comm::mpi::make_world(launch, options);
}

bool launched_by_mpi(const LaunchInfo& launch) {
  return launch.launcher == "openmpi" || launch.launcher == "mpich" || launch.launcher == "slurm";
}

[[noreturn]] void refuse_alone(const LaunchInfo& launch, const std::string& why) {
  const char* variable = launch.launcher == "openmpi" ? "OMPI_COMM_WORLD_SIZE"
                         : launch.launcher == "mpich" ? "PMI_SIZE"
                         : launch.launcher == "slurm" ? "SLURM_NTASKS"
                                                      : "WORLD_SIZE";
  throw ConfigError(fmt::format("{}={} announces {} ranks (this is rank {}), but {}", variable,
                                launch.world_size, launch.world_size, launch.rank, why));
}

// Whether anything says where the ranks meet; what is wrong with it then speaks for itself.
bool meeting_place_given() {
  const auto set = [](const char* name) {
    const char* value = std::getenv(name);
    return value && *value;
  };
  return env::store() || (set("MASTER_ADDR") && set("MASTER_PORT"));
}

std::shared_ptr<Communicator> make_over_store(const LaunchInfo& launch, const CommOptions& options) {
  const auto timeout = comm::resolve(options).timeout;
  StoreOptions where;
  try {
    where = store_options(launch, timeout);
  } catch (const ConfigError& e) {
    if (meeting_place_given()) throw;
    refuse_alone(
        launch,
        fmt::format("there is no way to meet the others: {}. Start it with shoal run -n {} or mpirun -n "
                    "{}, or unset WORLD_SIZE, RANK and LOCAL_RANK to have a world of one",
                    e.what(), launch.world_size, launch.world_size));
  }
  return comm::store::make_host_world(where, options);
}

std::shared_ptr<Communicator> make_auto(const CommOptions& options) {
  if (auto world = comm::local::current_world()) return world;
  const LaunchInfo launch = launch_info();
  if (launch.launcher == "environment" && launch.world_size > 1) return make_over_store(launch, options);
  if (!launched_by_mpi(launch) || (launch.world_size == 1 && !comm::mpi::info().available))
    return make_self(options);
  require_mpi(launch);
  if (auto world = comm::mpi::make_host_world(launch, options, false)) return world;
  return make_mpi(launch, options);
}

}  // namespace

std::shared_ptr<Communicator> make_world(const WorldOptions& options) {
  std::string backend = options.backend;
  if (backend == "auto") backend = env::comm_backend().value_or("auto");
  if (backend == "auto") return make_auto(options.comm);
  if (backend == "local") {
    if (auto world = comm::local::current_world()) return world;
    const LaunchInfo launch = launch_info();
    if (launch.launcher == "environment") return make_over_store(launch, options.comm);
    if (!launched_by_mpi(launch))
      throw ConfigError(
          "backend local: its ranks are threads of one process, made by run_local(ranks, body), or processes "
          "of one "
          "host, started by shoal run or another launcher");
    require_mpi(launch);
    return comm::mpi::make_host_world(launch, options.comm, true);
  }
  if (backend == "mpi") {
    const LaunchInfo launch = launch_info();
    if (launch.launcher == "environment" && launch.world_size > 1)
      refuse_alone(launch, "no MPI launcher started this process: start it with mpirun");
    return make_mpi(launch, options.comm);
  }
  if (backend == "self") {
    if (const LaunchInfo launch = launch_info(); launch.world_size > 1)
      refuse_alone(launch, "backend self has one");
    return make_self(options.comm);
  }
  throw ConfigError(fmt::format("communication backend {}: expected auto, self, local or mpi", backend));
}

std::vector<BackendInfo> comm_backends() {
  return {{"self", true, "one rank"},
          {"local", true, "ranks are threads of one process, or processes of one host over shared memory"},
          comm::mpi::info()};
}

int end_failed_job(const std::string& message) {
  if (!comm::mpi::end_failed_job(message) && !comm::store::end_failed_job(message)) {
    std::fprintf(stderr, "%s\n", message.c_str());
    std::fflush(stderr);
  }
  return 1;
}

}  // namespace shoal
