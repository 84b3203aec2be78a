// Messages between the ranks of one process, in order for each pair of ranks. Small ones are copied at once,
// so that the sender goes on; large ones are copied by the receiver, straight from the sender's buffer.
#pragma once
#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "shoal/core/dtype.hpp"

namespace shoal::comm::local {

struct Message {
  enum State : int { posted, claimed, taken, withdrawn };
  const void* data = nullptr;
  std::vector<std::byte> copy;  // holds the data of an eager message
  DType dtype = DType::u8;
  std::int64_t count = 0;
  std::atomic<int> state{posted};
};

class Mailbox {
 public:
  static constexpr std::int64_t eager_bytes = 65536;

  explicit Mailbox(int ranks) : ranks_(ranks), lanes_(static_cast<std::size_t>(ranks) * ranks) {}

  void put(int from, int to, std::shared_ptr<Message> message) {
    Lane& lane = lane_of(from, to);
    std::lock_guard lock(lane.mutex);
    lane.messages.push_back(std::move(message));
    lane.waiting.store(static_cast<int>(lane.messages.size()), std::memory_order_release);
  }
  bool empty(int from, int to) { return lane_of(from, to).waiting.load(std::memory_order_acquire) == 0; }
  // The next message, or null when there is none.
  std::shared_ptr<Message> take(int from, int to) {
    Lane& lane = lane_of(from, to);
    if (lane.waiting.load(std::memory_order_acquire) == 0) return nullptr;
    std::lock_guard lock(lane.mutex);
    if (lane.messages.empty()) return nullptr;
    auto message = std::move(lane.messages.front());
    lane.messages.pop_front();
    lane.waiting.store(static_cast<int>(lane.messages.size()), std::memory_order_release);
    return message;
  }

 private:
  struct Lane {
    std::mutex mutex;
    std::deque<std::shared_ptr<Message>> messages;
    std::atomic<int> waiting{0};
  };
  Lane& lane_of(int from, int to) { return lanes_[static_cast<std::size_t>(from) * ranks_ + to]; }
  const int ranks_;
  std::vector<Lane> lanes_;
};

}  // namespace shoal::comm::local
