// Worlds whose ranks are processes of one host.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "comm/backends/local/host.hpp"
#include "comm/rendezvous.hpp"
#include "shoal/comm/communicator.hpp"

namespace shoal::comm::local {

// What a process tells the others of where it is.
struct Place {
  std::string host;       // boot, name and /dev/shm: alike for processes that can share memory
  std::string processes;  // the name space of process numbers
  int process = 0;
};
Place own_place();

// Every rank's place. Collective.
std::vector<Place> gather_places(Rendezvous& meeting);
bool one_host(const std::vector<Place>& places);

// The communicator of all ranks of a rendezvous, which must be processes of one host; otherwise ConfigError naming the
// hosts. Collective, and every rank throws when it fails. `options` are resolved already. `outside` may be null.
std::shared_ptr<Communicator> make_world(Rendezvous& meeting, const std::vector<Place>& places,
                                         const CommOptions& options, std::unique_ptr<Outside> outside,
                                         const std::string& name = "world");

}  // namespace shoal::comm::local
