// What the backends of the host share: the order of operations, the communication threads, groups, and Work.
#pragma once
#include <functional>
#include <map>

#include "comm/failure.hpp"
#include "comm/fork.hpp"
#include "comm/header.hpp"
#include "comm/messages.hpp"
#include "comm/queue.hpp"
#include "comm/request.hpp"

namespace shoal::comm {

class HostCommunicator : public Communicator, private Messenger {
 public:
  int rank() const final { return rank_; }
  int size() const final { return size_; }
  void group_start() final;
  void group_end() final;
  void group_cancel() noexcept final;
  // abort in other words: all ranks fail with this very message.
  virtual void fail_all(Failure::Kind kind, const std::string& message) noexcept = 0;

 protected:
  HostCommunicator(int rank, int size)
      : rank_(rank), size_(size), queue_(rank), messages_(*this, rank, size) {}

  // Throws in a child of the process whose rank this is.
  void require_own_process() const;

  Work submit(Request request) final;
  // One at a time and in order, in whichever thread; returns when this rank's buffers are free and filled.
  // A failure makes the communicator fail on all ranks before it is thrown.
  virtual void collective(const Operation& op) = 0;
  // Messenger's methods are a backend's too (messages.hpp).
  std::unique_ptr<Transfer> transfer(const Operation& op) override = 0;
  void require_working() override = 0;
  std::exception_ptr message_failed(const Operation& op, std::exception_ptr error) override = 0;
  // False: this backend may be used by the callers' threads only. Asynchronous collectives then run in the calling
  // thread, and messages move while somebody waits.
  virtual bool may_use_threads() const { return true; }

  // For an operation that is no Request (split): runs in order and blocks. `what` names it in errors.
  void in_order(const char* what, const std::function<void()>& task);
  // To be called first in the destructor of a backend's class: later its methods are gone.
  void finish();
  bool busy() { return queue_.busy() || messages_.busy(); }
  // Where may_use_threads() is false: moves messages that are under way; called while waiting.
  void drive() { messages_.drive(); }

 private:
  struct Issued {
    Operation op;
    Event ready;
    std::shared_ptr<HostWork> work;  // null: the blocking form
  };
  struct Batch {  // what a thread's group_start opened
    int depth = 0;
    std::vector<Issued> issued;
  };
  Batch* open_batch();
  std::shared_ptr<HostWork> new_work();
  Work start(Issued issued);
  void post_collective(Issued issued);
  void run_group(std::vector<Issued> issued);

  const int rank_, size_;
  const int forks_ = fork_depth();
  Queue queue_;
  Messages messages_;
  std::mutex groups_mutex_;
  std::atomic<int> open_groups_{0};
  std::map<std::thread::id, Batch> groups_;  // nodes stay where they are, and only their own thread uses them
};

// Part i of `count` elements in n parts cut at multiples of 16 elements, so that no two ranks write one cache
// line; the last part takes what is left.
struct Part {
  std::int64_t begin = 0, size = 0;
};
Part part_of(std::int64_t count, int n, int i);

// dst = op.reduce over the ranks' sources, in rank order by the tree. `scales`: scales_of(headers).
void combine(const Operation& op, const std::vector<const void*>& sources, void* dst, std::int64_t count,
             const std::vector<double>& scales);
// The same, written to each of `copies` arrays. stream: past the caches.
void combine_to(const Operation& op, const std::vector<const void*>& sources, void* const* dst, int copies,
                bool stream, std::int64_t count, const std::vector<double>& scales);

// True when the two share bytes.
bool overlap(const void* a, std::int64_t a_bytes, const void* b, std::int64_t b_bytes);

// The memory an operation reads and writes on this rank: its tensors', or copies where they overlap in another way than
// all_gather, gather (root), scatter (root) and reduce_scatter can bear, which is this rank's own part of the larger one.
class Buffers {
 public:
  Buffers(const Operation& op, int rank);
  void* in = nullptr;
  void* out = nullptr;
  // When the operation is done: brings a copied result home.
  void finish();

 private:
  std::vector<std::byte> in_copy_, out_copy_;
  void* home_ = nullptr;
};

// Options with SHOAL_TIMEOUT and SHOAL_CHECK applied; throws ConfigError for a timeout that is not above 0.
CommOptions resolve(CommOptions options);

}  // namespace shoal::comm
