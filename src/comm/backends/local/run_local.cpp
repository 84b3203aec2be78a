#include <fmt/format.h>

#include <exception>
#include <mutex>
#include <thread>

#include "comm/backends/backends.hpp"
#include "comm/backends/local/communicator.hpp"
#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"
#include "shoal/core/log.hpp"
#include "shoal/core/threads.hpp"

namespace shoal {
namespace comm::local {
namespace {

thread_local std::weak_ptr<Communicator> world_of_thread;

// The first exception of any rank; but one that is known to be the cause of the others comes before them.
class First {
 public:
  void set(std::exception_ptr error, bool cause) {
    std::lock_guard lock(mutex_);
    if (!error_ || cause) error_ = std::move(error);
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

void run_rank(const std::shared_ptr<Block>& block, int rank, int threads, const CommOptions& options,
              First& first, const std::function<void(std::shared_ptr<Communicator>)>& body) {
  log::set_rank(rank);
  std::shared_ptr<LocalCommunicator> communicator;
  const auto group = std::make_shared<Group>(Group::About{"world", "local", options}, block, rank,
                                             make_host(block->layout.size));
  const auto failed = [&](const char* what) {
    first.set(std::current_exception(), group->unwinding() == rank);
    group->fail(Failure::Kind::comm, fmt::format("rank {} failed: {}", rank, what));
  };
  try {
    set_num_threads(threads);
    communicator = std::make_shared<LocalCommunicator>(group, make_caching_allocator({DeviceType::cpu, 0}));
    world_of_thread = communicator;
    body(communicator);  // kept until the exception below is recorded
  } catch (const std::exception& e) {
    failed(e.what());
  } catch (...) {
    failed("an exception of unknown type");
  }
  group->depart();
}

}  // namespace

std::shared_ptr<Communicator> current_world() { return world_of_thread.lock(); }

}  // namespace comm::local

void run_local(int ranks, const std::function<void(std::shared_ptr<Communicator>)>& body,
               const CommOptions& options) {
  constexpr int most = 1024;  // two threads a rank; waiting ranks take turns on the cores
  if (ranks < 1 || ranks > most)
    throw ConfigError(fmt::format("run_local: {} ranks: expected 1 to {}", ranks, most));
  const CommOptions resolved = comm::resolve(options);
  const auto block = comm::local::make_block(ranks);
  comm::local::First first;
  const int threads = std::max(1, num_threads() / ranks);
  std::vector<std::jthread> running;
  try {
    for (int r = 0; r < ranks; ++r)
      running.emplace_back([&, r] { comm::local::run_rank(block, r, threads, resolved, first, body); });
  } catch (const std::exception& e) {  // no more threads: the ranks that run must not wait for the rest
    comm::local::Group({"world", "local", resolved}, block, 0, comm::local::make_host(ranks))
        .fail(comm::Failure::Kind::comm,
              fmt::format("rank {} could not be started: {}", running.size(), e.what()));
    running.clear();
    throw;
  }
  running.clear();
  first.rethrow();
}

}  // namespace shoal
