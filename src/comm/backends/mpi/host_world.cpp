// A job that MPI has started with all its ranks on one host: they talk through shared memory. MPI tells them where they
// are, and of a rank that fails outside of any communicator.
#include <thread>

#include "comm/backends/backends.hpp"
#include "comm/backends/local/world.hpp"
#include "comm/backends/mpi/rendezvous.hpp"
#include "comm/backends/mpi/start.hpp"
#include "comm/host_communicator.hpp"

namespace shoal::comm::mpi {
namespace {

class MpiOutside final : public local::Outside {
 public:
  explicit MpiOutside(Runtime& runtime)
      : runtime_(runtime), id_(runtime.next_world()), failure_(std::make_shared<Failure>()) {
    runtime_.enroll(id_, failure_);
  }
  std::optional<Told> poll() override {
    if (!Runtime::running()) return std::nullopt;
    if (runtime_.threads() || std::this_thread::get_id() == thread_) runtime_.poll();
    if (!failure_->failed() || !failure_->remote()) return std::nullopt;
    return Told{failure_->kind(), failure_->message()};
  }
  bool left(int rank) override { return runtime_.left(rank); }
  void failed(Failure::Kind kind, const std::string& message, bool remote) noexcept override {
    try {
      if (Runtime::running()) runtime_.note(id_, kind, message, remote);
    } catch (...) {  // no memory for the message: nothing more can be said
    }
  }

 private:
  Runtime& runtime_;
  const std::string id_;
  const std::shared_ptr<Failure> failure_;
  const std::thread::id thread_ = std::this_thread::get_id();  // MPI's, where it may have one only
};

}  // namespace

std::shared_ptr<Communicator> make_host_world(const LaunchInfo& launch, const CommOptions& options,
                                              bool required) {
  const CommOptions resolved = resolve(options);
  Runtime& runtime = start(launch, resolved);
  auto outside = std::make_shared<std::unique_ptr<local::Outside>>(std::make_unique<MpiOutside>(runtime));
  return within(resolved, launch, [&runtime, resolved, required, outside]() -> std::shared_ptr<Communicator> {
    MpiRendezvous meeting(runtime, MPI_COMM_WORLD);
    const auto places = local::gather_places(meeting);
    if (!required && !local::one_host(places)) return nullptr;
    return local::make_world(meeting, places, resolved, std::move(*outside));
  });
}

}  // namespace shoal::comm::mpi
