// Send and receive, on an MPI communicator of their own, as machines whose steps never block (comm/messages.hpp). The
// tag carries the dtype, and whether this is the last piece, so that a receiver finds a mismatch instead of waiting for a
// message that has another tag. A message to oneself is copied and never meets MPI, so that it needs no receive to end.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "comm/backends/mpi/communicator.hpp"
#include "comm/wait.hpp"
#include "shoal/core/error.hpp"

namespace shoal::comm::mpi {
namespace {

constexpr std::int64_t piece = std::int64_t{1} << 30;  // bytes
constexpr int last_piece = 64;

int tag_of(DType dtype, bool last) { return static_cast<int>(dtype) + (last ? last_piece : 0); }

}  // namespace

class MpiCommunicator::Sending final : public Transfer {
 public:
  Sending(MpiCommunicator& comm, const Operation& op)
      : comm_(comm), op_(op), exchange_(comm.runtime_, comm.messages_) {
    const auto* data = static_cast<const std::byte*>(op.in.data());
    if (op.root == comm.rank()) {
      std::vector<std::byte> copy(op.nbytes());
      if (!copy.empty()) std::memcpy(copy.data(), data, copy.size());
      std::lock_guard lock(comm.own_mutex_);
      comm.own_.push_back({op.dtype, op.count, std::move(copy)});
      return;
    }
    std::int64_t done = 0;
    do {  // MPI keeps their order
      const std::int64_t len = std::min(piece, op.nbytes() - done);
      exchange_.message(op.root, data + done, len, tag_of(op.dtype, done + len == op.nbytes()));
      done += len;
    } while (done < op.nbytes());
  }
  State step() override { return exchange_.poll() ? State::done : State::ordered; }
  void check(double seconds) override { comm_.check_peer(op_, seconds); }

 private:
  MpiCommunicator& comm_;
  const Operation op_;
  Exchange exchange_;
};

class MpiCommunicator::Receiving final : public Transfer {
 public:
  Receiving(MpiCommunicator& comm, const Operation& op)
      : comm_(comm), op_(op), exchange_(comm.runtime_, comm.messages_) {}

  State step() override {
    if (op_.root == comm_.rank()) return own();
    if (!matched_all_) {
      while (match())
        if (matched_all_) break;
      if (!matched_all_) return State::waiting;
    }
    return exchange_.poll() ? State::done : State::ordered;
  }
  void check(double seconds) override { comm_.check_peer(op_, seconds); }

 private:
  State own() {
    Own message;
    {
      std::lock_guard lock(comm_.own_mutex_);
      if (comm_.own_.empty()) return State::waiting;
      message = std::move(comm_.own_.front());
      comm_.own_.pop_front();
    }
    if (message.dtype != op_.dtype || message.count != op_.count)
      throw CommError(
          fmt::format("rank {} sends {} {}", op_.root, message.count, shoal::name(message.dtype)));
    if (op_.nbytes() > 0) std::memcpy(op_.out.data(), message.bytes.data(), op_.nbytes());
    return State::done;
  }

  // The next message from the peer, whatever it is; true when there was one.
  bool match() {
    const std::int64_t len = std::min(piece, op_.nbytes() - matched_);
    const bool last = matched_ + len == op_.nbytes();
    MPI_Message message;
    MPI_Status status;
    int there = 0, found = 0;
    {
      auto serial = comm_.runtime_.lock();
      mpi::check(MPI_Improbe(op_.root, MPI_ANY_TAG, comm_.messages_, &there, &message, &status),
                 "MPI_Improbe");
      if (!there) return false;
      MPI_Get_count(&status, MPI_BYTE, &found);
    }
    if (found != len || status.MPI_TAG != tag_of(op_.dtype, last)) {
      const auto dtype = static_cast<DType>(status.MPI_TAG % last_piece);
      throw CommError(fmt::format("rank {} sends {} {}{}", op_.root, found / size_of(dtype),
                                  shoal::name(dtype), status.MPI_TAG < last_piece ? " and more" : ""));
    }
    exchange_.matched(op_.root, static_cast<std::byte*>(op_.out.data()) + matched_, len, message);
    matched_ += len;
    matched_all_ = last;
    return true;
  }

  MpiCommunicator& comm_;
  const Operation op_;
  Exchange exchange_;
  std::int64_t matched_ = 0;
  bool matched_all_ = false;
};

std::unique_ptr<Transfer> MpiCommunicator::transfer(const Operation& op) {
  if (op.is(Kind::send)) return std::make_unique<Sending>(*this, op);
  return std::make_unique<Receiving>(*this, op);
}

// While a message waits for its peer.
void MpiCommunicator::check_peer(const Operation& op, double seconds) {
  runtime_.poll();
  failure_->check();
  if (interrupted()) throw CommError(interrupted_text);
  if (runtime_.left(world_ranks_[op.root]) && seconds > 2.0)
    throw CommError(fmt::format("rank {} has ended", op.root));
  if (seconds > options_.timeout.count())
    throw TimeoutError(
        fmt::format("rank {} had not arrived after {:g} s", op.root, options_.timeout.count()));
}

// MPI may still use the tensors' memory.
std::exception_ptr MpiCommunicator::message_failed(const Operation& op, std::exception_ptr error) {
  runtime_.keep(std::make_shared<Operation>(op));
  if (failure_->failed()) return error;
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    try {
      fail(kind_of(e),
           fmt::format("communicator {}: rank {}: {}: {}", name_, rank(), describe(op), e.what()));
    } catch (...) {
      return std::current_exception();
    }
  }
  return error;
}

}  // namespace shoal::comm::mpi
