// Send and receive, on an MPI communicator of their own, in the calling thread. The tag carries the dtype,
// and whether this is the last piece, so that a receiver finds a mismatch instead of waiting for a message
// that has another tag.
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

void MpiCommunicator::point_to_point(const Operation& op) {
  failure_->check();
  std::lock_guard one((op.kind == Kind::send ? to_ : from_)[op.root]);
  try {
    if (op.kind == Kind::send)
      send(op);
    else
      recv(op);
  } catch (const std::exception& e) {
    runtime_.keep(std::make_shared<Operation>(op));
    if (failure_->failed()) throw;
    fail(kind_of(e), fmt::format("communicator {}: rank {}: {}: {}", name_, rank(), describe(op), e.what()));
  }
}

void MpiCommunicator::send(const Operation& op) {
  const auto* data = static_cast<const std::byte*>(op.in.data());
  std::shared_ptr<std::byte[]> copy;
  if (op.root == rank() && op.nbytes() > 0) {  // to itself: the receive comes later in this thread
    copy = std::make_shared_for_overwrite<std::byte[]>(op.nbytes());
    std::memcpy(copy.get(), data, op.nbytes());
    data = copy.get();
  }
  std::int64_t done = 0;
  do {
    const std::int64_t len = std::min(piece, op.nbytes() - done);
    Exchange e(runtime_, messages_);
    e.message(op.root, data + done, len, tag_of(op.dtype, done + len == op.nbytes()));
    if (copy) {
      runtime_.keep(copy);
      e.forget();
    } else {
      wait(e, op, len <= 65536);
    }
    done += len;
  } while (done < op.nbytes());
}

// The next message from the peer, whatever it is.
void MpiCommunicator::match(const Operation& op, MPI_Message& message, MPI_Status& status) {
  for (Backoff backoff(runtime_.crowded());; backoff.pause()) {
    int there = 0;
    {
      auto serial = runtime_.lock();
      check(MPI_Improbe(op.root, MPI_ANY_TAG, messages_, &there, &message, &status), "MPI_Improbe");
    }
    if (there) return;
    if (!backoff.due()) continue;
    runtime_.poll();
    failure_->check();
    const double seconds = std::chrono::duration<double>(backoff.elapsed()).count();
    if (runtime_.left(world_ranks_[op.root]) && seconds > 2.0)
      throw CommError(fmt::format("rank {} has ended", op.root));
    if (seconds > options_.timeout.count())
      throw TimeoutError(
          fmt::format("rank {} had not arrived after {:g} s", op.root, options_.timeout.count()));
  }
}

void MpiCommunicator::recv(const Operation& op) {
  std::int64_t done = 0;
  do {
    const std::int64_t len = std::min(piece, op.nbytes() - done);
    MPI_Message message;
    MPI_Status status;
    match(op, message, status);
    int found = 0;
    MPI_Get_count(&status, MPI_BYTE, &found);
    const int tag = tag_of(op.dtype, done + len == op.nbytes());
    if (found != len || status.MPI_TAG != tag) {
      const auto dtype = static_cast<DType>(status.MPI_TAG % last_piece);
      throw CommError(fmt::format("rank {} sends {} {}{}", op.root, found / size_of(dtype),
                                  shoal::name(dtype), status.MPI_TAG < last_piece ? " and more" : ""));
    }
    Exchange e(runtime_, messages_);
    e.matched(op.root, static_cast<std::byte*>(op.out.data()) + done, len, message);
    wait(e, op, len <= 65536);
    done += len;
  } while (done < op.nbytes());
}

}  // namespace shoal::comm::mpi
