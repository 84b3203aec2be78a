// Ranks of one host talk through shared memory. MPI tells them where they are, and of a rank that fails outside of any
// communicator; and it carries what goes from host to host.
#include <numeric>
#include <thread>

#include "comm/backends/backends.hpp"
#include "comm/backends/composed/communicator.hpp"
#include "comm/backends/local/world.hpp"
#include "comm/backends/mpi/communicator.hpp"
#include "comm/backends/mpi/rendezvous.hpp"
#include "comm/backends/mpi/start.hpp"
#include "comm/host_communicator.hpp"

namespace shoal::comm::mpi {
namespace {

class MpiOutside final : public local::Outside {
 public:
  // Of the world's `ranks`. `thread`: MPI's, where it may have one only.
  MpiOutside(Runtime& runtime, std::string id, std::vector<int> ranks, std::thread::id thread)
      : runtime_(runtime),
        id_(std::move(id)),
        ranks_(std::move(ranks)),
        failure_(std::make_shared<Failure>()),
        thread_(thread) {
    runtime_.enroll(id_, failure_);
  }
  std::optional<Told> poll() override {
    if (!Runtime::running()) return std::nullopt;
    if (runtime_.threads() || std::this_thread::get_id() == thread_) runtime_.poll();
    if (!failure_->failed() || !failure_->remote()) return std::nullopt;
    return Told{failure_->kind(), failure_->message()};
  }
  bool left(int rank) override { return runtime_.left(ranks_[rank]); }
  // Known under a name of its own: the failure of a sub-group is not that of the whole.
  void failed(Failure::Kind kind, const std::string& message, bool remote) noexcept override {
    try {
      if (Runtime::running()) runtime_.note(id_ + "/inside", kind, message, remote);
    } catch (...) {  // no memory for the message: nothing more can be said
    }
  }

 private:
  Runtime& runtime_;
  const std::string id_;
  const std::vector<int> ranks_;
  const std::shared_ptr<Failure> failure_;
  const std::thread::id thread_;
};

// A place's host is its name and what tells it from others of that name.
std::string host_name(const local::Place& place) { return place.host.substr(0, place.host.find(' ')); }

// The ranks of this host in its memory, and all ranks over MPI.
std::shared_ptr<Communicator> make_composed(Runtime& runtime, const std::vector<local::Place>& places,
                                            const CommOptions& resolved, const std::string& id) {
  const std::string& here = places[runtime.rank()].host;
  std::vector<int> ranks;
  std::vector<local::Place> neighbours;
  for (int r = 0; r < runtime.size(); ++r)
    if (places[r].host == here) {
      ranks.push_back(r);
      neighbours.push_back(places[r]);
    }
  MPI_Comm own = MPI_COMM_NULL, host = MPI_COMM_NULL;
  {
    auto serial = runtime.lock();
    check(MPI_Comm_dup(MPI_COMM_WORLD, &own), "MPI_Comm_dup");
    check(MPI_Comm_split(MPI_COMM_WORLD, ranks.front(), runtime.rank(), &host), "MPI_Comm_split");
  }
  auto flat = std::make_shared<MpiCommunicator>(runtime, own, "world", runtime.next_world(), resolved,
                                                make_caching_allocator({DeviceType::cpu, 0}));
  std::shared_ptr<Communicator> near;
  {
    MpiRendezvous meeting(runtime, host);
    near = local::make_world(meeting, neighbours, resolved,
                             std::make_unique<MpiOutside>(runtime, id, ranks, std::this_thread::get_id()),
                             "world@" + host_name(neighbours[0]));
  }
  {
    auto serial = runtime.lock();
    MPI_Comm_free(&host);
  }
  return composed::compose(std::move(flat), std::move(near), here, resolved);
}

}  // namespace

std::shared_ptr<Communicator> make_host_world(const LaunchInfo& launch, const CommOptions& options,
                                              bool required) {
  const CommOptions resolved = resolve(options);
  Runtime& runtime = start(launch, resolved);
  const std::string id = runtime.next_world();
  const auto thread = std::this_thread::get_id();
  return within(resolved, launch,
                [&runtime, resolved, required, id, thread]() -> std::shared_ptr<Communicator> {
                  MpiRendezvous meeting(runtime, MPI_COMM_WORLD);
                  const auto places = local::gather_places(meeting);
                  if (required || local::one_host(places)) {
                    std::vector<int> all(runtime.size());
                    std::iota(all.begin(), all.end(), 0);
                    return local::make_world(meeting, places, resolved,
                                             std::make_unique<MpiOutside>(runtime, id, all, thread));
                  }
                  // The communicator of several hosts needs a thread of MPI's for what goes from one to another.
                  if (!runtime.threads()) return nullptr;
                  return make_composed(runtime, places, resolved, id);
                });
}

}  // namespace shoal::comm::mpi
