// MPI in this process: its start and end, the control channel over which failures travel, and the lock for
// libraries that want one caller at a time. Lives from the first make_world to the end of the process.
#pragma once
#include <mpi.h>

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/failure.hpp"

namespace shoal::comm::mpi {

// Throws CommError with the call and MPI's text unless code is MPI_SUCCESS.
void check(int code, const char* call);

class Runtime {
 public:
  static Runtime& get();      // starts MPI where nobody has; throws CommError
  static Runtime* running();  // null when get() was never called or MPI has ended

  int rank() const { return rank_; }
  int size() const { return size_; }
  // MPI_THREAD_SERIALIZED at least: communication threads may run.
  bool threads() const { return threads_; }
  // Held around every MPI call; empty with MPI_THREAD_MULTIPLE, where MPI takes care itself.
  std::unique_lock<std::mutex> lock() {
    return multiple_ ? std::unique_lock<std::mutex>() : std::unique_lock(serial_);
  }
  // More ranks on this host than cores.
  bool crowded() const { return crowded_; }

  // -- failures. A communicator's id is its path of splits: "job/0" for a world,
  // "job/0/3.0" below it; what is split from a failed one
  // has failed too.
  void enroll(const std::string& id, const std::shared_ptr<Failure>& failure);
  // Tells `ranks` (of the world) of a failure. Never blocks.
  void tell(const std::vector<int>& ranks, const std::string& id, Failure::Kind kind,
            const std::string& message);
  // A failure that all ranks concerned know of without being told here. remote: another rank saw it first.
  void note(const std::string& id, Failure::Kind kind, const std::string& message, bool remote) {
    apply(id, kind, message, remote);
  }
  // Takes in what others told. Cheap; called while waiting.
  void poll();
  bool left(int world_rank) const { return left_[world_rank].load(std::memory_order_acquire); }

  // Keeps `what` for ever: MPI may still write to it after a failed operation.
  void keep(std::shared_ptr<void> what);
  // The id of the next world communicator; ranks make worlds in the same order.
  std::string next_world();
  // An id that no other rank and no earlier call gives.
  std::string unique_id();
  // Breaks every communicator of the job, on all ranks.
  void tell_all(const std::string& message);
  // Whether `text` is, or contains, a failure that another rank told.
  bool was_told(const std::string& text);
  [[noreturn]] void abort_job();

 private:
  Runtime();
  void send(int to, std::string text);
  void received(const std::string& text, int from);
  void apply(const std::string& id, Failure::Kind kind, const std::string& message, bool remote);
  void finalize() noexcept;

  int rank_ = 0, size_ = 1;
  bool threads_ = false, multiple_ = false, crowded_ = false, ours_ = false;
  MPI_Comm control_ = MPI_COMM_NULL;
  std::mutex serial_;
  std::mutex polling_;
  std::mutex mutex_;  // of what follows
  std::map<std::string, std::weak_ptr<Failure>> enrolled_;
  struct Told {
    std::string id;
    Failure::Kind kind;
    std::string message;
    bool remote;
  };
  std::vector<Told> told_;
  struct Outgoing {
    std::string text;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  std::list<Outgoing> outgoing_;
  std::vector<std::shared_ptr<void>> kept_;
  int worlds_ = 0;
  std::vector<std::atomic<bool>> left_;
};

}  // namespace shoal::comm::mpi
