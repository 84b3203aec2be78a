// The way from bootstrap to the backends; the one place that lists them.
#pragma once
#include <memory>
#include <string>

#include "shoal/comm/bootstrap.hpp"

namespace shoal::comm {

namespace local {
// The communicator of run_local that the calling thread is a rank of, or null.
std::shared_ptr<Communicator> current_world();
}  // namespace local

namespace mpi {
BackendInfo info();
// Throws ConfigError when the library finds another number of ranks than the launcher announced.
std::shared_ptr<Communicator> make_world(const LaunchInfo& launch, const CommOptions& options);
// The world of a job whose ranks of one host talk through shared memory, and hosts over MPI. `required`: all are to be
// on one host, otherwise ConfigError. Null where MPI's messages alone can serve.
std::shared_ptr<Communicator> make_host_world(const LaunchInfo& launch, const CommOptions& options,
                                              bool required);
// Breaks the world on all ranks with this rank's failure, writes it, and ends all ranks; does not return
// then. When another rank's failure is the cause, waits to be ended by it. Returns false when MPI is not in
// use.
bool end_failed_job(const std::string& message);
}  // namespace mpi

}  // namespace shoal::comm
