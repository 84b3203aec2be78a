// Messages between two ranks, in order for each pair: a ring of bytes for each direction, written by the one and read
// by the other. Small messages are done once they are in the ring. Large ones whose buffer the receiver sees are copied
// straight from there; others go through the ring piece by piece.
#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/backends/local/group.hpp"
#include "comm/messages.hpp"

namespace shoal::comm::local {

class Talk {
 public:
  explicit Talk(Group& group) : group_(group) {}
  // The next message to or from a rank. `ref`: where the receiver sees the data, if it does.
  std::unique_ptr<Transfer> send(const Operation& op, const BufferRef& ref);
  std::unique_ptr<Transfer> recv(const Operation& op);

 private:
  struct Own {  // to itself
    DType dtype;
    std::int64_t count;
    std::vector<std::byte> data;
  };
  class ToSelf;
  class FromSelf;
  Group& group_;
  std::mutex mutex_;
  std::deque<Own> own_;
};

}  // namespace shoal::comm::local
