// The mpi backend of a build without MPI.
#include <string>

#include "comm/backends/backends.hpp"
#include "shoal/core/build_info.hpp"
#include "shoal/core/error.hpp"

namespace shoal::comm::mpi {

BackendInfo info() {
  for (const Feature& f : build_features())
    if (f.name == "mpi") return {"mpi", false, f.detail};
  return {"mpi", false, "not part of this build"};
}

std::shared_ptr<Communicator> make_world(const LaunchInfo&, const CommOptions&) {
  throw ConfigError("backend mpi: " + info().detail);
}

std::shared_ptr<Communicator> make_host_world(const LaunchInfo&, const CommOptions&, bool) {
  throw ConfigError("backend mpi: " + info().detail);
}

bool end_failed_job(const std::string&) { return false; }

}  // namespace shoal::comm::mpi

namespace shoal {
std::shared_ptr<Communicator> adopt_mpi(int communicator, const CommOptions&) {
  throw ConfigError("MPI communicator " + std::to_string(communicator) +
                    ": backend mpi: " + comm::mpi::info().detail);
}
}  // namespace shoal
