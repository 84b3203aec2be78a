// MPI's start, with a deadline.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <thread>
#include <utility>

#include "comm/backends/mpi/runtime.hpp"
#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"

namespace shoal::comm::mpi {

// Starts MPI where nobody has. Throws TimeoutError when another rank does not come, ConfigError when the library finds
// another number of ranks than the launcher announced.
Runtime& start(const LaunchInfo& launch, const CommOptions& resolved);

// MPI's calls have no deadline of their own, and cannot be interrupted: `call` runs in a thread, which is left to itself
// when the time is over. `call` owns all that it uses.
template <class F>
std::invoke_result_t<F> within(const CommOptions& options, const LaunchInfo& launch, F call) {
  using std::chrono::duration;
  // A start takes seconds on a busy machine, whatever a wait between ranks may take.
  constexpr duration<double> shortest{10.0};
  std::packaged_task<std::invoke_result_t<F>()> task(std::move(call));
  auto result = task.get_future();
  std::thread thread(std::move(task));
  const auto limit = std::clamp(options.timeout, shortest, duration<double>(1e9));
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

}  // namespace shoal::comm::mpi
