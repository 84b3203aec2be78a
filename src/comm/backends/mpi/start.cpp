#include "comm/backends/mpi/start.hpp"

#include "comm/backends/backends.hpp"
#include "shoal/core/log.hpp"

namespace shoal::comm::mpi {

Runtime& start(const LaunchInfo& launch, const CommOptions& resolved) {
  Runtime& runtime = *within(resolved, launch, [] { return &Runtime::get(); });
  log::set_rank(runtime.rank());
  if (launch.launcher != "none" && (launch.world_size != runtime.size() || launch.rank != runtime.rank()))
    throw ConfigError(fmt::format(
        "the launcher ({}) announces rank {} of {}, but {} finds rank {} of {}: was this "
        "started with the mpirun of another MPI?",
        launch.launcher, launch.rank, launch.world_size, info().detail, runtime.rank(), runtime.size()));
  return runtime;
}

}  // namespace shoal::comm::mpi
