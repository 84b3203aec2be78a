#include "comm/store/host_world.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <mutex>
#include <thread>

#include "comm/backends/local/world.hpp"
#include "comm/host_communicator.hpp"
#include "comm/store/rendezvous.hpp"
#include "shoal/core/log.hpp"

namespace shoal::comm::store {
namespace {

constexpr std::chrono::seconds for_the_launcher{10};  // to end a rank that waits for it

// The last world that this process made, for end_failed_job().
struct Job {
  std::mutex mutex;
  std::weak_ptr<Store> store;
  std::weak_ptr<Communicator> world;
  std::shared_ptr<Store> kept;  // of a world that an exception has destroyed
  bool launched = false;        // by one that ends the others
  std::string told;             // the failure of another rank
};

Job& job() {
  static Job* const instance = new Job;  // never destroyed: a rank may fail while its process ends
  return *instance;
}

// Notes which failures came from elsewhere; what ends a wait is seen in the shared memory itself.
class StoreOutside final : public local::Outside {
 public:
  std::optional<Told> poll() override { return std::nullopt; }
  bool left(int) override { return false; }
  void failed(Failure::Kind, const std::string& message, bool remote) noexcept override {
    if (!remote) return;
    try {
      std::lock_guard lock(job().mutex);
      if (job().told.empty()) job().told = message;
    } catch (const std::exception&) {  // no memory for the message: then it is shown twice
    }
  }
};

// The world goes before the Store, which rank 0 may serve. When an exception is what ends it, the Store stays, over which
// end_failed_job() tells of the failure.
struct World {
  World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() {
    if (std::uncaught_exceptions() == 0) return;
    std::lock_guard lock(job().mutex);
    job().kept = store;
  }
  std::shared_ptr<Store> store;
  std::shared_ptr<Communicator> world;
};

void write(int rank, const std::string& message) {
  std::fprintf(stderr, "rank %d: %s\n", rank, message.c_str());
  std::fflush(stderr);
}

}  // namespace

std::shared_ptr<Communicator> make_host_world(const StoreOptions& where, const CommOptions& options) {
  log::set_rank(where.rank);
  const CommOptions resolved = resolve(options);
  const auto both = std::make_shared<World>();
  both->store = Store::connect(where);
  StoreRendezvous meeting(both->store, "world");
  const auto places = local::gather_places(meeting);
  both->world = local::make_world(meeting, places, resolved, std::make_unique<StoreOutside>());
  const std::shared_ptr<Communicator> world(both, both->world.get());
  std::lock_guard lock(job().mutex);
  job().store = both->store;
  job().world = world;
  job().launched = !where.serve;
  job().told.clear();
  job().kept.reset();
  return world;
}

bool end_failed_job(const std::string& message) {
  std::unique_lock lock(job().mutex);
  const auto store = job().store.lock();
  if (!store) return false;
  const auto world = job().world.lock();
  const bool launched = job().launched;
  const bool remote = !job().told.empty() && message.find(job().told) != std::string::npos;
  lock.unlock();
  if (remote) {
    if (launched) std::this_thread::sleep_for(for_the_launcher);
    write(store->rank(), message);
    return true;
  }
  store->fail(fmt::format("rank {} failed: {}", store->rank(), message));
  write(store->rank(), message);
  if (world) world->abort(message);
  return true;
}

}  // namespace shoal::comm::store
