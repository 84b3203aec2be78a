#include "comm/backends/local/talk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "comm/backends/local/single_copy.hpp"
#include "shoal/core/error.hpp"

namespace shoal::comm::local {
namespace {

constexpr std::int64_t line = 64;
constexpr std::int64_t piece = 32768;        // bytes that are given over at once
constexpr std::int64_t eager_bytes = 65536;  // up to here the sender does not wait for the receiver
enum Direct : std::int64_t { posted, claimed, taken, withdrawn };

struct alignas(line) Envelope {
  std::int64_t count;
  BufferRef ref;
  std::int32_t dtype;
  std::int32_t direct;
};
static_assert(sizeof(Envelope) == line);

std::int64_t lines(std::int64_t bytes) { return (bytes + line - 1) / line * line; }

// What both sides have in common: the lane, and how a wait for the peer ends.
class Side : public Transfer {
 public:
  Side(Group& group, const Operation& op, int from, int to)
      : group_(group), op_(op), lane_(group.block->layout.lane(group.control(), from, to)) {}

 protected:
  void check_peer(double seconds) {
    group_.check();
    if (group_.host->outside)
      group_.look(
          {}, nullptr, 0, [] { return std::string(); }, "");
    if (const std::string why = group_.departed(op_.root, seconds); !why.empty())
      throw CommError(fmt::format("rank {} {}", op_.root, why));
    if (seconds > group_.about.options.timeout.count())
      throw TimeoutError(fmt::format("rank {} had not arrived after {:g} s", op_.root,
                                     group_.about.options.timeout.count()));
  }
  Group& group_;
  const Operation op_;
  Lane& lane_;
};

class Send final : public Side {
 public:
  Send(Group& group, const Operation& op, const BufferRef& ref) : Side(group, op, group.rank, op.root) {
    const Layout& l = group.block->layout;
    if (l.lane_open(group.control(), group.rank, op.root).load(std::memory_order_relaxed) == 0) {
      group.block->commit(l.lane_offset(group.rank, op.root), sizeof(Lane), describe(op));
      l.lane_open(group.control(), group.rank, op.root).store(1, std::memory_order_release);
    }
    const bool direct = op.nbytes() > eager_bytes && ref.readable();
    envelope_ = {op.count, ref, static_cast<std::int32_t>(op.dtype), direct};
    number_ = lane_.direct.load(std::memory_order_relaxed) / 4 + 1;
  }

  State step() override {
    if (!begun_) {
      if (space() < line) return State::waiting;
      if (envelope_.direct) lane_.direct.store(number_ * 4 + posted, std::memory_order_release);
      put(&envelope_, line);
      begun_ = true;
    }
    if (envelope_.direct)
      return lane_.direct.load(std::memory_order_acquire) == number_ * 4 + taken ? State::done
                                                                                 : State::waiting;
    while (done_ < op_.nbytes()) {
      const std::int64_t len = std::min(op_.nbytes() - done_, piece);
      if (space() < lines(len)) return State::waiting;
      put(static_cast<const std::byte*>(op_.in.data()) + done_, len);
      done_ += len;
    }
    return State::done;
  }

  void check(double seconds) override {
    try {
      check_peer(seconds);
    } catch (...) {
      if (!begun_ || !envelope_.direct) throw;
      std::int64_t expected = number_ * 4 + posted;  // a receiver that has claimed it finishes its copy first
      if (lane_.direct.compare_exchange_strong(expected, number_ * 4 + withdrawn, std::memory_order_acq_rel))
        throw;
      // A process may have been stopped there; it looks whether the communicator works when it has the bytes.
      if (group_.host->processes) throw;
    }
  }

 private:
  std::int64_t space() const {
    return Lane::room -
           (lane_.written.load(std::memory_order_relaxed) - lane_.read.load(std::memory_order_acquire));
  }
  // Pieces begin at whole lines and divide the room, so that only the end of the ring cuts them.
  void put(const void* from, std::int64_t len) {
    const std::int64_t written = lane_.written.load(std::memory_order_relaxed), place = written % Lane::room;
    const std::int64_t first = std::min(len, Lane::room - place);
    std::memcpy(lane_.bytes + place, from, first);
    if (first < len) std::memcpy(lane_.bytes, static_cast<const std::byte*>(from) + first, len - first);
    lane_.written.store(written + lines(len), std::memory_order_release);
  }

  Envelope envelope_;
  std::int64_t number_, done_ = 0;
  bool begun_ = false;
};

class Receive final : public Side {
 public:
  Receive(Group& group, const Operation& op) : Side(group, op, op.root, group.rank) {}

  State step() override {
    if (!open()) return State::waiting;
    if (!begun_) {
      if (there() < line) return State::waiting;
      get(&envelope_, line);
      begun_ = true;
      if (envelope_.dtype != static_cast<std::int32_t>(op_.dtype) || envelope_.count != op_.count) mismatch();
    }
    if (envelope_.direct) return take();
    while (done_ < op_.nbytes()) {
      const std::int64_t len = std::min(op_.nbytes() - done_, piece);
      if (there() < lines(len)) return State::waiting;
      get(static_cast<std::byte*>(op_.out.data()) + done_, len);
      done_ += len;
    }
    return State::done;
  }

  void check(double seconds) override {
    if (open() && there() > 0) return;
    try {
      check_peer(seconds);
    } catch (...) {
      if (open() && there() > 0 && !group_.failed()) return;  // sent before the peer went
      throw;
    }
  }

 private:
  bool open() const {
    return group_.block->layout.lane_open(group_.control(), op_.root, group_.rank)
               .load(std::memory_order_acquire) != 0;
  }
  std::int64_t there() const {
    return lane_.written.load(std::memory_order_acquire) - lane_.read.load(std::memory_order_relaxed);
  }
  void get(void* to, std::int64_t len) {
    const std::int64_t read = lane_.read.load(std::memory_order_relaxed), place = read % Lane::room;
    const std::int64_t first = std::min(len, Lane::room - place);
    std::memcpy(to, lane_.bytes + place, first);
    if (first < len) std::memcpy(static_cast<std::byte*>(to) + first, lane_.bytes, len - first);
    lane_.read.store(read + lines(len), std::memory_order_release);
  }
  State take() {
    const std::int64_t number = lane_.direct.load(std::memory_order_acquire) / 4;
    std::int64_t expected = number * 4 + posted;
    if (!lane_.direct.compare_exchange_strong(expected, number * 4 + claimed, std::memory_order_acq_rel))
      group_.raise();  // withdrawn: only a failure does that
    const bool copied = copy(envelope_.ref);
    const int why = errno;
    const bool given_up = group_.host->processes && group_.failed();  // the sender may have changed them
    lane_.direct.store(number * 4 + taken, std::memory_order_release);
    if (given_up) group_.raise();
    if (!copied)
      throw CommError(fmt::format("{} bytes of rank {} cannot be read: {}", op_.nbytes(), op_.root,
                                  std::generic_category().message(why)));
    return State::done;
  }
  bool copy(const BufferRef& ref) const {
    const bool address = ref.segment == BufferRef::address || ref.segment == BufferRef::apart;
    const void* from = address ? reinterpret_cast<const void*>(ref.offset) : group_.host->segments.at(ref);
    if (ref.segment == BufferRef::apart)
      return read_memory(group_.process_of(op_.root), from, op_.out.data(), op_.nbytes());
    errno = EFAULT;  // of a segment that this rank has not mapped
    if (from) std::memcpy(op_.out.data(), from, op_.nbytes());
    return from != nullptr;
  }
  [[noreturn]] void mismatch() {
    throw CommError(fmt::format("rank {} sends {} {}", op_.root, envelope_.count,
                                shoal::name(static_cast<DType>(envelope_.dtype))));
  }

  Envelope envelope_{};
  std::int64_t done_ = 0;
  bool begun_ = false;
};

}  // namespace

class Talk::ToSelf final : public Transfer {
 public:
  ToSelf(Talk& talk, const Operation& op) {
    const auto* bytes = static_cast<const std::byte*>(op.in.data());
    std::lock_guard lock(talk.mutex_);
    talk.own_.push_back({op.dtype, op.count, std::vector<std::byte>(bytes, bytes + op.nbytes())});
  }
  State step() override { return State::done; }
  void check(double) override {}
};

class Talk::FromSelf final : public Transfer {
 public:
  FromSelf(Talk& talk, const Operation& op) : talk_(talk), op_(op) {}
  State step() override {
    std::lock_guard lock(talk_.mutex_);
    if (talk_.own_.empty()) return State::waiting;
    const Own own = std::move(talk_.own_.front());
    talk_.own_.pop_front();
    if (own.dtype != op_.dtype || own.count != op_.count)
      throw CommError(fmt::format("rank {} sends {} {}", op_.root, own.count, shoal::name(own.dtype)));
    if (op_.nbytes() > 0) std::memcpy(op_.out.data(), own.data.data(), op_.nbytes());
    return State::done;
  }
  void check(double seconds) override {
    talk_.group_.check();
    if (interrupted()) throw CommError(interrupted_text);
    const double limit = talk_.group_.about.options.timeout.count();
    if (seconds > limit)
      throw TimeoutError(fmt::format("rank {} had not arrived after {:g} s", op_.root, limit));
  }

 private:
  Talk& talk_;
  const Operation op_;
};

std::unique_ptr<Transfer> Talk::send(const Operation& op, const BufferRef& ref) {
  if (op.root == group_.rank) return std::make_unique<ToSelf>(*this, op);
  return std::make_unique<Send>(group_, op, ref);
}

std::unique_ptr<Transfer> Talk::recv(const Operation& op) {
  if (op.root == group_.rank) return std::make_unique<FromSelf>(*this, op);
  return std::make_unique<Receive>(group_, op);
}

}  // namespace shoal::comm::local
