// Which ranks share a host, and which of a host's ranks carry its traffic: pure arithmetic.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace shoal::comm::composed {

// Every host has ranks 0 to rails - 1 of its own as rails: rail i of all hosts form one group, and each of these groups
// carries a part of every operation, so that the network is driven by as many processes as every host has.
struct Hosts {
  std::vector<int> host_of;             // by rank; hosts are numbered in the order of their first ranks
  std::vector<int> index_of;            // by rank: its place on its host
  std::vector<std::vector<int>> ranks;  // of each host, ascending
  int rails = 1;                        // the size of the smallest host

  int count() const { return static_cast<int>(ranks.size()); }
  // All hosts are of one size.
  bool even() const;
  // The ranks of each host follow each other.
  bool contiguous() const;
  // The rail that carries what is for, or from, a rank.
  int rail_of(int rank) const { return index_of[rank] % rails; }
  // All ranks in the order in which the network's buffers hold their parts: by rail, then host, then place.
  std::vector<int> by_rail() const;
};

// keys[r] is equal for ranks of one host.
Hosts hosts_of(const std::vector<std::string>& keys);

}  // namespace shoal::comm::composed
