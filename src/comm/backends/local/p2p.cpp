// Send and receive. They run in the calling thread, beside the queue of collectives.
#include <fmt/format.h>

#include <cstring>

#include "comm/backends/local/communicator.hpp"
#include "comm/wait.hpp"
#include "shoal/core/error.hpp"

namespace shoal::comm::local {

void LocalCommunicator::point_to_point(const Operation& op) {
  group_->failure.check();
  if (op.kind == Kind::send)
    send(op);
  else
    recv(op);
}

void LocalCommunicator::peer_failed(const Operation& op, Failure::Kind kind, const std::string& why) {
  group_->fail(kind, fmt::format("communicator {}: rank {}: {}: {}", name(), rank(), describe(op), why));
  group_->failure.raise();
}

void LocalCommunicator::send(const Operation& op) {
  auto message = std::make_shared<Message>();
  message->dtype = op.dtype;
  message->count = op.count;
  message->data = op.in.data();
  const bool eager = op.nbytes() <= Mailbox::eager_bytes || op.root == rank();
  if (eager && op.nbytes() > 0) {
    const auto* bytes = static_cast<const std::byte*>(op.in.data());
    message->copy.assign(bytes, bytes + op.nbytes());
    message->data = message->copy.data();
  }
  group_->mailbox.put(rank(), op.root, message);
  if (eager) return;
  // Not sent any more once it is withdrawn; a receiver that has claimed it finishes its copy first.
  const auto withdraw = [&] {
    int expected = Message::posted;
    return message->state.compare_exchange_strong(expected, Message::withdrawn, std::memory_order_acq_rel);
  };
  for (Backoff backoff(group_->crowded());; backoff.pause()) {
    if (message->state.load(std::memory_order_acquire) == Message::taken) return;
    if (group_->failure.failed() && withdraw()) group_->failure.raise();
    if (!backoff.due()) continue;
    if (group_->departed({op.root}) >= 0 && withdraw())
      peer_failed(op, Failure::Kind::comm, fmt::format("rank {} has returned from its work", op.root));
    if (backoff.elapsed() > group_->options.timeout && withdraw())
      peer_failed(
          op, Failure::Kind::timeout,
          fmt::format("rank {} had not arrived after {:g} s", op.root, group_->options.timeout.count()));
  }
}

void LocalCommunicator::recv(const Operation& op) {
  std::shared_ptr<Message> message;
  for (Backoff backoff(group_->crowded());; backoff.pause()) {
    message = group_->mailbox.take(op.root, rank());
    if (message) break;
    group_->failure.check();
    if (!backoff.due()) continue;
    if (group_->departed({op.root}) >= 0 && !(message = group_->mailbox.take(op.root, rank())))
      peer_failed(op, Failure::Kind::comm, fmt::format("rank {} has returned from its work", op.root));
    if (message) break;
    if (backoff.elapsed() > group_->options.timeout)
      peer_failed(
          op, Failure::Kind::timeout,
          fmt::format("rank {} had not arrived after {:g} s", op.root, group_->options.timeout.count()));
  }
  int expected = Message::posted;
  if (!message->state.compare_exchange_strong(expected, Message::claimed, std::memory_order_acq_rel))
    group_->failure.raise();  // withdrawn: only a failure does that
  const bool fits = message->dtype == op.dtype && message->count == op.count;
  if (fits && op.nbytes() > 0) std::memcpy(op.out.data(), message->data, op.nbytes());
  message->state.store(Message::taken, std::memory_order_release);
  if (!fits)
    peer_failed(op, Failure::Kind::comm,
                fmt::format("rank {} sends {} {}", op.root, message->count, shoal::name(message->dtype)));
}

}  // namespace shoal::comm::local
