#include "comm/backends/composed/hosts.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace shoal::comm::composed {

bool Hosts::even() const {
  return std::all_of(ranks.begin(), ranks.end(),
                     [&](const auto& r) { return r.size() == ranks.front().size(); });
}

bool Hosts::contiguous() const {
  return std::all_of(ranks.begin(), ranks.end(),
                     [](const auto& r) { return r.back() - r.front() + 1 == static_cast<int>(r.size()); });
}

std::vector<int> Hosts::by_rail() const {
  std::vector<int> order(host_of.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return std::tuple(rail_of(a), host_of[a], index_of[a]) < std::tuple(rail_of(b), host_of[b], index_of[b]);
  });
  return order;
}

Hosts hosts_of(const std::vector<std::string>& keys) {
  Hosts hosts;
  std::map<std::string, int> known;
  for (int rank = 0; rank < static_cast<int>(keys.size()); ++rank) {
    const auto [it, is_new] = known.emplace(keys[rank], hosts.count());
    if (is_new) hosts.ranks.emplace_back();
    auto& here = hosts.ranks[it->second];
    hosts.host_of.push_back(it->second);
    hosts.index_of.push_back(static_cast<int>(here.size()));
    here.push_back(rank);
  }
  std::size_t least = keys.size();
  for (const auto& here : hosts.ranks) least = std::min(least, here.size());
  hosts.rails = std::max(1, static_cast<int>(least));
  return hosts;
}

}  // namespace shoal::comm::composed
