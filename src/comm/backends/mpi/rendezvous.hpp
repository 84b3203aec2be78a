// A rendezvous over MPI.
#pragma once
#include <numeric>
#include <string>
#include <vector>

#include "comm/backends/mpi/runtime.hpp"
#include "comm/rendezvous.hpp"

namespace shoal::comm::mpi {

class MpiRendezvous final : public Rendezvous {
 public:
  // Takes a communicator of its own from `of`; collective.
  MpiRendezvous(Runtime& runtime, MPI_Comm of) : MpiRendezvous(runtime, of, Numbers(runtime, of)) {}
  ~MpiRendezvous() override {
    auto serial = runtime_.lock();
    MPI_Comm_free(&comm_);
  }

  std::vector<std::string> all_gather(const std::string& mine) override {
    auto serial = runtime_.lock();
    const int length = static_cast<int>(mine.size());
    std::vector<int> lengths(size), places(size);
    check(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm_), "MPI_Allgather");
    std::exclusive_scan(lengths.begin(), lengths.end(), places.begin(), 0);
    std::string all(places.back() + lengths.back(), '\0');
    check(MPI_Allgatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), places.data(), MPI_CHAR,
                         comm_),
          "MPI_Allgatherv");
    std::vector<std::string> texts;
    for (int r = 0; r < size; ++r) texts.push_back(all.substr(places[r], lengths[r]));
    return texts;
  }

 private:
  struct Numbers {
    int rank = 0, size = 1;
    Numbers(Runtime& runtime, MPI_Comm comm) {
      auto serial = runtime.lock();
      check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
      check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
    }
  };
  MpiRendezvous(Runtime& runtime, MPI_Comm of, const Numbers& n)
      : Rendezvous(n.rank, n.size), runtime_(runtime) {
    auto serial = runtime_.lock();
    check(MPI_Comm_dup(of, &comm_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  Runtime& runtime_;
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace shoal::comm::mpi
