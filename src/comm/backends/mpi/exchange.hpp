// A set of messages under way, and the wait for all of them. Algorithms are written with it; it knows nothing
// of them.
#pragma once
#include <mpi.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "comm/backends/mpi/runtime.hpp"

namespace shoal::comm::mpi {

class Exchange {
 public:
  Exchange(Runtime& runtime, MPI_Comm comm) : runtime_(runtime), comm_(comm) {}

  // nbytes of any size; nothing is sent for 0.
  void send(int to, const void* data, std::int64_t nbytes, int tag = 1);
  void recv(int from, void* data, std::int64_t nbytes, int tag = 1);

  // One message of at most 1 GiB, sent also when it is empty; and its receive, of a message already matched.
  void message(int to, const void* data, std::int64_t nbytes, int tag);
  void matched(int from, void* data, std::int64_t nbytes, MPI_Message& message);
  // Polls until all is done. `idle` is called now and then with the ranks that are waited for and the time
  // since the wait began, and throws to give up. may_sleep: while nothing large is moved by polling.
  using Idle = std::function<void(const std::vector<int>& ranks, double seconds)>;
  void wait(const Idle& idle, bool may_sleep);
  // True when all is done; never blocks.
  bool poll();

 private:
  std::vector<int> waited_for();
  bool all_done(std::vector<MPI_Request>& requests);
  void check_lengths(int code, const std::vector<MPI_Status>& statuses) const;

  Runtime& runtime_;
  MPI_Comm comm_;
  std::vector<MPI_Request> receives_, sends_;
  std::vector<int> receive_from_, send_to_;
  std::vector<int> receive_bytes_;  // what each receive expects
};

}  // namespace shoal::comm::mpi
