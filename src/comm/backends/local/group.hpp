// What the ranks of one communicator share when they are threads of one process: a slot for each rank, the
// agreement that an operation begins, and the first failure.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/backends/local/mailbox.hpp"
#include "comm/failure.hpp"
#include "comm/header.hpp"
#include "shoal/comm/communicator.hpp"

namespace shoal::comm::local {

// What a rank shows to the others while an operation runs.
struct alignas(128) Slot {
  std::atomic<std::int64_t> arrived{0};  // operations begun
  std::atomic<std::int64_t> left{0};     // operations finished
  std::atomic<bool> gone{false};         // the rank's body has returned (root group only)
  Header header;
  const void* in = nullptr;
  void* out = nullptr;
  std::vector<const void*> nodes;
  const std::int64_t* counts =
      nullptr;  // of all_to_all_v: what it sends to each rank, and what it expects of each
  const std::int64_t* recv_counts = nullptr;
};

class Group : public std::enable_shared_from_this<Group> {
 public:
  Group(std::string name, std::string backend, int size, const CommOptions& options);

  const std::string name, backend;
  const int size;
  const CommOptions options;
  std::vector<Slot> slots;
  Mailbox mailbox;
  Failure failure;

  // The two halves of operation number k (1, 2, ...) for a rank. begin returns when all ranks have come, or
  // throws on all of them: whether an operation takes place is decided once, so that no rank reads the
  // buffers of one that has given up. end returns when all ranks are done with each other's buffers; it
  // cannot fail.
  void begin(int rank, std::int64_t k, const Operation& op);
  void end(int rank, std::int64_t k) noexcept;

  // Breaks this group and all that were split from it.
  void fail(Failure::Kind kind, const std::string& message);
  void depart(int rank) { slots[rank].gone.store(true, std::memory_order_release); }
  // The first of `ranks` (of this group) whose body has returned, or -1.
  int departed(const std::vector<int>& ranks) const;
  bool crowded() const { return crowded_; }
  // A rank gives up operations that its communication thread has under way, since an exception is passing
  // through.
  void fail_unwinding(int rank);
  // The first rank of the root group that did, or -1.
  int unwinding() const { return unwinding_.load(std::memory_order_acquire); }

  // The group of one color of a split, the same for all its members. `members` are ranks of this group.
  std::shared_ptr<Group> child(std::int64_t k, int color, const std::vector<int>& members);

 private:
  // Fails, and throws unless the operation has begun in the meantime.
  void give_up(std::int64_t k, const Operation& op, const std::string& why, Failure::Kind kind);
  std::vector<int> missing(std::int64_t k) const;

  static constexpr std::uint64_t broken = std::uint64_t{1} << 63;
  std::atomic<std::uint64_t> committed_{0};  // operations that take place, and `broken`
  std::atomic<int> unwinding_{-1};
  const bool crowded_;
  std::shared_ptr<Group> parent_;
  std::vector<int> in_parent_;  // this group's ranks as ranks of parent_
  std::mutex mutex_;
  std::vector<std::weak_ptr<Group>> children_;
  struct Pending {
    std::shared_ptr<Group> group;
    std::size_t taken = 0;
  };
  std::map<std::pair<std::int64_t, int>, Pending> splitting_;
};

}  // namespace shoal::comm::local
