// How ranks that have no communicator yet tell each other where they are. MPI and the Store both offer it.
#pragma once
#include <string>
#include <vector>

namespace shoal::comm {

struct Rendezvous {
  const int rank, size;

  Rendezvous(int r, int n) : rank(r), size(n) {}
  virtual ~Rendezvous() = default;
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Every rank gives some bytes (kilobytes, not data) and gets those of all, by rank. Collective. Throws TimeoutError
  // naming the ranks that have not arrived, CommError when one is gone.
  virtual std::vector<std::string> all_gather(const std::string& mine) = 0;
};

}  // namespace shoal::comm
