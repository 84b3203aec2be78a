// Entry and exit of the backend.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <future>
#include <thread>
#include <utility>

#include "comm/backends/backends.hpp"
#include "comm/backends/mpi/communicator.hpp"
#include "comm/backends/mpi/start.hpp"
#include "comm/wait.hpp"
#include "shoal/core/error.hpp"
#include "shoal/core/log.hpp"

namespace shoal::comm::mpi {
BackendInfo info() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING + 1] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string version(text, length);
  // "Open MPI v4.1.4, package: ..." and "MPICH Version:\t4.0.2\nMPICH Release date: ...".
  version = version.substr(0, version.find_first_of(",\n"));
  for (char& c : version)
    if (c == '\t') c = ' ';
  return {"mpi", true, version};
}

std::shared_ptr<Communicator> make_world(const LaunchInfo& launch, const CommOptions& options) {
  const CommOptions resolved = resolve(options);
  Runtime& runtime = start(launch, resolved);
  return within(resolved, launch, [&runtime, resolved] {
    MPI_Comm own = MPI_COMM_NULL;
    {
      auto serial = runtime.lock();
      check(MPI_Comm_dup(MPI_COMM_WORLD, &own), "MPI_Comm_dup");
    }
    return std::make_shared<MpiCommunicator>(runtime, own, "world", runtime.next_world(), resolved,
                                             make_caching_allocator({DeviceType::cpu, 0}));
  });
}

std::shared_ptr<Communicator> adopt(int handle, const CommOptions& options) {
  int started = 0;
  MPI_Initialized(&started);
  if (!started) throw ConfigError(fmt::format("MPI communicator {}: MPI has not been started", handle));
  const CommOptions resolved = resolve(options);
  Runtime& runtime = Runtime::get();
  log::set_rank(runtime.rank());
  auto serial = runtime.lock();
  const MPI_Comm given = MPI_Comm_f2c(static_cast<MPI_Fint>(handle));
  if (given == MPI_COMM_NULL)
    throw ConfigError(fmt::format("MPI communicator {}: it is MPI_COMM_NULL", handle));
  int inter = 0;
  check(MPI_Comm_test_inter(given, &inter), "MPI_Comm_test_inter");
  if (inter) throw ConfigError(fmt::format("MPI communicator {}: it has two groups of ranks", handle));
  MPI_Comm own = MPI_COMM_NULL;
  check(MPI_Comm_dup(given, &own), "MPI_Comm_dup");
  char id[64] = {};
  std::snprintf(id, sizeof id, "%s", runtime.unique_id().c_str());
  check(MPI_Bcast(id, sizeof id, MPI_CHAR, 0, own), "MPI_Bcast");
  if (serial.owns_lock()) serial.unlock();
  return std::make_shared<MpiCommunicator>(runtime, own, "mpi", id, resolved,
                                           make_caching_allocator({DeviceType::cpu, 0}));
}

bool end_failed_job(const std::string& message) {
  Runtime* runtime = Runtime::running();
  if (!runtime || runtime->size() == 1) return false;
  runtime->poll();
  // Another rank's failure came first, and it will speak for the job; here only if it never does.
  if (runtime->was_told(message)) {
    const auto start = Clock::now();
    while (Clock::now() - start < std::chrono::seconds(10)) {
      const timespec nap{0, 10000000};
      ::nanosleep(&nap, nullptr);
    }
  }
  runtime->tell_all(fmt::format("rank {} failed: {}", runtime->rank(), message));
  std::fprintf(stderr, "rank %d: %s\n", runtime->rank(), message.c_str());
  std::fflush(stderr);
  runtime->abort_job();
}

}  // namespace shoal::comm::mpi

namespace shoal {
std::shared_ptr<Communicator> adopt_mpi(int communicator, const CommOptions& options) {
  return comm::mpi::adopt(communicator, options);
}
}  // namespace shoal
