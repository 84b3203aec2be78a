#include "comm/backends/mpi/exchange.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "comm/wait.hpp"
#include "shoal/core/error.hpp"

namespace shoal::comm::mpi {
namespace {

constexpr std::int64_t largest = std::int64_t{1} << 30;  // bytes a message: MPI counts are int

}  // namespace

void Exchange::send(int to, const void* data, std::int64_t nbytes, int tag) {
  auto serial = runtime_.lock();
  for (std::int64_t done = 0; done < nbytes; done += largest) {
    send_to_.push_back(to);
    check(MPI_Isend(static_cast<const char*>(data) + done, static_cast<int>(std::min(largest, nbytes - done)),
                    MPI_BYTE, to, tag, comm_, &sends_.emplace_back(MPI_REQUEST_NULL)),
          "MPI_Isend");
  }
}

void Exchange::recv(int from, void* data, std::int64_t nbytes, int tag) {
  auto serial = runtime_.lock();
  for (std::int64_t done = 0; done < nbytes; done += largest) {
    receive_from_.push_back(from);
    receive_bytes_.push_back(static_cast<int>(std::min(largest, nbytes - done)));
    check(MPI_Irecv(static_cast<char*>(data) + done, static_cast<int>(std::min(largest, nbytes - done)),
                    MPI_BYTE, from, tag, comm_, &receives_.emplace_back(MPI_REQUEST_NULL)),
          "MPI_Irecv");
  }
}

void Exchange::message(int to, const void* data, std::int64_t nbytes, int tag) {
  auto serial = runtime_.lock();
  send_to_.push_back(to);
  check(MPI_Isend(data, static_cast<int>(nbytes), MPI_BYTE, to, tag, comm_,
                  &sends_.emplace_back(MPI_REQUEST_NULL)),
        "MPI_Isend");
}

void Exchange::matched(int from, void* data, std::int64_t nbytes, MPI_Message& message) {
  auto serial = runtime_.lock();
  receive_from_.push_back(from);
  receive_bytes_.push_back(static_cast<int>(nbytes));
  check(MPI_Imrecv(data, static_cast<int>(nbytes), MPI_BYTE, &message,
                   &receives_.emplace_back(MPI_REQUEST_NULL)),
        "MPI_Imrecv");
}

// Tests each request by itself, since MPI_Testall may leave finished ones as they are.
std::vector<int> Exchange::waited_for() {
  auto serial = runtime_.lock();
  std::vector<int> ranks;
  const auto collect = [&](std::vector<MPI_Request>& requests, const std::vector<int>& peers) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      int done = 0;
      check(MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (!done) ranks.push_back(peers[i]);
    }
  };
  collect(receives_, receive_from_);
  if (ranks.empty()) collect(sends_, send_to_);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

// A message of another length than expected would leave wrong numbers on one rank, so it is refused also without the
// debug checks.
void Exchange::check_lengths(int code, const std::vector<MPI_Status>& statuses) const {
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    const MPI_Status& status = statuses[i];
    if (status.MPI_SOURCE == MPI_ANY_SOURCE) continue;  // was complete before (waited_for)
    int kind = MPI_SUCCESS, bytes = receive_bytes_[i];
    if (code == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING)
      MPI_Error_class(status.MPI_ERROR, &kind);
    else if (code == MPI_SUCCESS)
      MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (kind != MPI_ERR_TRUNCATE && bytes == receive_bytes_[i]) continue;
    throw CommError(fmt::format(
        "rank {} sent {} bytes where {} were expected: the ranks called different operations or "
        "counts (SHOAL_CHECK=1 says which)",
        receive_from_[i], kind == MPI_ERR_TRUNCATE ? "more" : fmt::format("{}", bytes), receive_bytes_[i]));
  }
}

bool Exchange::all_done(std::vector<MPI_Request>& requests) {
  if (requests.empty()) return true;
  auto serial = runtime_.lock();
  int done = 0;
  const bool receiving = &requests == &receives_;
  std::vector<MPI_Status> statuses(receiving ? requests.size() : 0);
  const int code = MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done,
                               receiving ? statuses.data() : MPI_STATUSES_IGNORE);
  if (receiving && (done || code != MPI_SUCCESS)) check_lengths(code, statuses);
  check(code, "MPI_Testall");
  if (done) requests.clear();
  return done != 0;
}

bool Exchange::poll() {
  if (!(all_done(receives_) & all_done(sends_))) return false;
  receive_from_.clear();
  receive_bytes_.clear();
  send_to_.clear();
  return true;
}

void Exchange::wait(const Idle& idle, bool may_sleep) {
  Backoff backoff(runtime_.crowded(), may_sleep);
  while (!poll()) {
    backoff.pause();
    if (!backoff.due()) continue;
    runtime_.poll();
    idle(waited_for(), std::chrono::duration<double>(backoff.elapsed()).count());
  }
}

}  // namespace shoal::comm::mpi
