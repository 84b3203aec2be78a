// What the backends of the host share: the order of operations, the communication thread, and Work.
#pragma once
#include <functional>

#include "comm/header.hpp"
#include "comm/queue.hpp"
#include "comm/request.hpp"

namespace shoal::comm {

class HostCommunicator : public Communicator {
 public:
  int rank() const final { return rank_; }
  int size() const final { return size_; }

 protected:
  HostCommunicator(int rank, int size) : rank_(rank), size_(size), queue_(rank) {}

  Work submit(Request request) final;
  // One at a time and in order, in whichever thread; returns when this rank's buffers are free and filled.
  // A failure makes the communicator fail on all ranks before it is thrown.
  virtual void collective(const Operation& op) = 0;
  // In the calling thread, beside the collectives, so that a pending receive delays nothing.
  virtual void point_to_point(const Operation& op) = 0;
  // False: this backend may be used by one thread only; asynchronous forms then run in the calling thread.
  virtual bool may_use_threads() const { return true; }

  // For an operation that is no Request (split): runs in order and blocks.
  void in_order(const std::function<void()>& task) { queue_.run(task); }
  // To be called first in the destructor of a backend's class: later its methods are gone.
  void finish() { queue_.stop(); }
  bool busy() { return queue_.busy(); }

 private:
  const int rank_, size_;
  Queue queue_;
};

// Part i of `count` elements in n parts cut at multiples of 16 elements, so that no two ranks write one cache
// line; the last part takes what is left.
struct Part {
  std::int64_t begin = 0, size = 0;
};
Part part_of(std::int64_t count, int n, int i);

// dst = op.reduce over the ranks' sources, in rank order by the tree.
void combine(const Operation& op, const std::vector<const void*>& sources, void* dst, std::int64_t count);

// True when the two share bytes.
bool overlap(const void* a, std::int64_t a_bytes, const void* b, std::int64_t b_bytes);

// Options with SHOAL_TIMEOUT and SHOAL_CHECK applied; throws ConfigError for a timeout that is not above 0.
CommOptions resolve(CommOptions options);

}  // namespace shoal::comm
