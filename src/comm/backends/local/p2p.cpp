// Send and receive, as machines whose steps never block (comm/messages.hpp).
#include <fmt/format.h>

#include <cstring>

#include "comm/backends/local/communicator.hpp"
#include "shoal/core/error.hpp"

namespace shoal::comm::local {
namespace {

class LocalTransfer : public Transfer {
 public:
  LocalTransfer(std::shared_ptr<Group> group, int rank, const Operation& op)
      : group_(std::move(group)), rank_(rank), op_(op) {}

  // Where the wait may end: for a receiver any time, for a sender only with its message withdrawn.
  void check(double seconds) override {
    if (group_->failure.failed() && let_go()) group_->failure.raise();
    if (interrupted() && let_go()) fail(Failure::Kind::comm, interrupted_text);
    if (group_->departed({op_.root}) >= 0 && let_go())
      fail(Failure::Kind::comm, fmt::format("rank {} has returned from its work", op_.root));
    if (seconds > group_->options.timeout.count() && let_go())
      fail(Failure::Kind::timeout,
           fmt::format("rank {} had not arrived after {:g} s", op_.root, group_->options.timeout.count()));
  }

 protected:
  virtual bool let_go() = 0;
  [[noreturn]] void fail(Failure::Kind kind, const std::string& why) {
    group_->fail(kind,
                 fmt::format("communicator {}: rank {}: {}: {}", group_->name, rank_, describe(op_), why));
    group_->failure.raise();
  }

  const std::shared_ptr<Group> group_;
  const int rank_;
  const Operation op_;
};

class Sending final : public LocalTransfer {
 public:
  Sending(std::shared_ptr<Group> group, int rank, const Operation& op)
      : LocalTransfer(std::move(group), rank, op) {
    message_->dtype = op.dtype;
    message_->count = op.count;
    message_->data = op.in.data();
    eager_ = op.nbytes() <= Mailbox::eager_bytes || op.root == rank;
    if (eager_ && op.nbytes() > 0) {
      const auto* bytes = static_cast<const std::byte*>(op.in.data());
      message_->copy.assign(bytes, bytes + op.nbytes());
      message_->data = message_->copy.data();
    }
    group_->mailbox.put(rank, op.root, message_);
  }
  State step() override {
    if (eager_ || message_->state.load(std::memory_order_acquire) == Message::taken) return State::done;
    return State::ordered;
  }

 private:
  // Not sent any more once it is withdrawn; a receiver that has claimed it finishes its copy first.
  bool let_go() override {
    int expected = Message::posted;
    return message_->state.compare_exchange_strong(expected, Message::withdrawn, std::memory_order_acq_rel);
  }
  const std::shared_ptr<Message> message_ = std::make_shared<Message>();
  bool eager_ = false;
};

class Receiving final : public LocalTransfer {
 public:
  using LocalTransfer::LocalTransfer;
  State step() override {
    const std::shared_ptr<Message> message = group_->mailbox.take(op_.root, rank_);
    if (!message) return State::waiting;
    int expected = Message::posted;
    if (!message->state.compare_exchange_strong(expected, Message::claimed, std::memory_order_acq_rel))
      group_->failure.raise();  // withdrawn: only a failure does that
    const bool fits = message->dtype == op_.dtype && message->count == op_.count;
    if (fits && op_.nbytes() > 0) std::memcpy(op_.out.data(), message->data, op_.nbytes());
    message->state.store(Message::taken, std::memory_order_release);
    if (!fits)
      fail(Failure::Kind::comm,
           fmt::format("rank {} sends {} {}", op_.root, message->count, shoal::name(message->dtype)));
    return State::done;
  }

 private:
  bool let_go() override {
    return group_->mailbox.empty(op_.root, rank_);
  }  // what was sent before is still there
};

}  // namespace

std::unique_ptr<Transfer> LocalCommunicator::transfer(const Operation& op) {
  if (op.is(Kind::send)) return std::make_unique<Sending>(group_, rank(), op);
  return std::make_unique<Receiving>(group_, rank(), op);
}

std::exception_ptr LocalCommunicator::message_failed(const Operation& op, std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    if (!group_->failure.failed())
      group_->fail(kind_of(e),
                   fmt::format("communicator {}: rank {}: {}: {}", name(), rank(), describe(op), e.what()));
  }
  return error;
}

}  // namespace shoal::comm::local
