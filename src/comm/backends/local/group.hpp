// One rank's side of a communicator: how it meets the others, and how a failure reaches them all. Every rank has its
// own Group; what they share is the Control block.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/backends/local/block.hpp"
#include "comm/backends/local/host.hpp"
#include "comm/failure.hpp"
#include "shoal/comm/communicator.hpp"

namespace shoal::comm::local {

class Group {
 public:
  // What all sides of a communicator agree on.
  struct About {
    std::string name, backend;
    CommOptions options;
  };
  Group(About about, std::shared_ptr<Block> block, int rank, std::shared_ptr<Host> host);
  // Split from `parent`; members[r] is this group's rank r there.
  Group(About about, std::shared_ptr<Block> block, int rank, std::shared_ptr<Group> parent,
        std::vector<int> members);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const About about;
  const int rank, size;
  const std::shared_ptr<Block> block;
  const std::shared_ptr<Host> host;
  Control* control() const { return block->control(); }
  Slot& slot(int r) const { return block->layout.slot(control(), r); }
  Show& show(Channel c, int r, std::int64_t meeting) const { return slot(r).shows[c][meeting & 1]; }
  const std::shared_ptr<Group>& parent() const { return parent_; }
  int root_rank(int r) const { return parent_ ? parent_->root_rank(members_[r]) : r; }
  int process_of(int r) const { return host->ranks ? host->ranks->id(root_rank(r)) : 0; }
  // -- segments that were allocated from this group: their numbers, and their place among those of the host
  std::int64_t next_segment() const;
  void keep(std::int64_t number, std::shared_ptr<Segment> segment);
  // True for this group and what it was split from.
  bool within(const Control* group) const;

  // A wait, for its messages: "all_reduce of 3 f32 (sum) (operation 4)".
  using What = std::function<std::string()>;

  // Comes to meeting number m (1, 2, ...) of a channel and returns when all ranks have; throws when the group fails
  // meanwhile. decide: whether the meeting takes place is decided once for all ranks, so that none uses the memory of
  // one that has given up; it must be followed by part(). waited: for messages.
  void meet(Channel c, std::int64_t m, const What& what, bool decide = false,
            const char* waited = "had not arrived");
  // Comes to meeting m and returns when all ranks are done with each other's memory. With threads it cannot fail.
  void part(Channel c, std::int64_t m, const What& what);

  // -- failures
  bool failed() const;
  void check() const {
    if (failed()) raise();
  }
  [[noreturn]] void raise() const;
  // Breaks this group and all that is split from it.
  void fail(Failure::Kind kind, const std::string& message) const { tell(kind, message, root_rank(rank)); }
  // Why rank r, waited for since `seconds`, will not come; or empty.
  std::string departed(int r, double seconds) const;
  void depart() { slot(rank).gone.store(1, std::memory_order_release); }
  // This rank gives up operations that its communication thread has under way, since an exception is passing through.
  void fail_unwinding();
  int unwinding() const { return control()->unwinding.load(std::memory_order_acquire) - 1; }
  // Now and then, in a wait for `ranks` that began `seconds` ago: throws when it is to end. `waited`: "had not
  // arrived"; late: whether a rank is still waited for.
  using Late = std::function<bool(int)>;
  void look(const std::vector<int>& ranks, const Late& late, double seconds, const What& what,
            const char* waited) const;

  // -- the record of operations (flight.cpp)
  void begin_flight(const Header& header);
  void set_flight(Flight::State state);
  // "rank 1: after barrier (operation 3)".
  std::string whereabouts(int r) const;
  // The last operations of every rank, one a line.
  std::string flight_record() const;

 private:
  struct Copy {
    bool failed = false;
    Failure::Kind kind = Failure::Kind::comm;
    std::string message;
    int rank = -1;  // of the root group; -1: outside
  };
  Copy failure() const;
  void tell(Failure::Kind kind, const std::string& message, int root_rank) const;
  std::vector<int> missing(Channel c, std::int64_t m) const;
  void wait(Channel c, std::int64_t m, int next, const What& what, bool decide, const char* waited);
  bool decided(std::int64_t m) const;

  const std::shared_ptr<Group> parent_;
  const std::vector<int> members_;
  const int process_;
  std::vector<std::int64_t> kept_;
};

}  // namespace shoal::comm::local
