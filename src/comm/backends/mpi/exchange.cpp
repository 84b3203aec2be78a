#include "comm/backends/mpi/exchange.hpp"

#include <algorithm>

#include "comm/wait.hpp"

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
  check(MPI_Imrecv(data, static_cast<int>(nbytes), MPI_BYTE, &message,
                   &receives_.emplace_back(MPI_REQUEST_NULL)),
        "MPI_Imrecv");
}

void Exchange::forget() {
  auto serial = runtime_.lock();
  for (MPI_Request& r : sends_) MPI_Request_free(&r);
  sends_.clear();
  send_to_.clear();
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

void Exchange::wait(const Idle& idle, bool may_sleep) {
  const auto all_done = [&](std::vector<MPI_Request>& requests) {
    if (requests.empty()) return true;
    auto serial = runtime_.lock();
    int done = 0;
    check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
          "MPI_Testall");
    if (done) requests.clear();
    return done != 0;
  };
  Backoff backoff(runtime_.crowded(), may_sleep);
  while (!(all_done(receives_) & all_done(sends_))) {
    backoff.pause();
    if (!backoff.due()) continue;
    runtime_.poll();
    idle(waited_for(), std::chrono::duration<double>(backoff.elapsed()).count());
  }
  receive_from_.clear();
  send_to_.clear();
}

}  // namespace shoal::comm::mpi
