// Entry and exit of the backend.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <future>
#include <thread>
#include <utility>

#include "comm/backends/backends.hpp"
#include "comm/backends/mpi/communicator.hpp"
#include "comm/wait.hpp"
#include "shoal/core/error.hpp"
#include "shoal/core/log.hpp"

namespace shoal::comm::mpi {
namespace {

using std::chrono::duration;

// A start takes seconds on a busy machine, whatever a wait between ranks may take.
constexpr duration<double> shortest_start{10.0};

// MPI's start has no deadline of its own, and cannot be interrupted: it runs in a thread, which is left to
// itself when the time is over. `start` owns all that it uses.
template <class F>
std::invoke_result_t<F> within(const CommOptions& options, const LaunchInfo& launch, F start) {
  std::packaged_task<std::invoke_result_t<F>()> task(std::move(start));
  auto result = task.get_future();
  std::thread thread(std::move(task));
  const auto limit = std::clamp(options.timeout, shortest_start, duration<double>(1e9));
  if (result.wait_for(limit) == std::future_status::ready) {
    thread.join();
    return result.get();
  }
  thread.detach();
  const std::string message =
      fmt::format("rank {} of {}: MPI did not start within {:g} s: another rank has not arrived", launch.rank,
                  launch.world_size, limit.count());
  if (Runtime* runtime = Runtime::running()) runtime->tell({}, "job", Failure::Kind::timeout, message);
  throw TimeoutError(message);
}

}  // namespace

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
  Runtime& runtime = *within(resolved, launch, [] { return &Runtime::get(); });
  log::set_rank(runtime.rank());
  if (launch.launcher != "none" && (launch.world_size != runtime.size() || launch.rank != runtime.rank()))
    throw ConfigError(fmt::format(
        "the launcher ({}) announces rank {} of {}, but {} finds rank {} of {}: was this "
        "started with the mpirun of another MPI?",
        launch.launcher, launch.rank, launch.world_size, info().detail, runtime.rank(), runtime.size()));
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
