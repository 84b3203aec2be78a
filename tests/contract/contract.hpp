// The contract of communicators: one list of checks, run against every backend and number of ranks. Each check is
// called by every rank with a communicator of all of them.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shoal/comm/communicator.hpp"

namespace shoal::contract {

using World = std::shared_ptr<Communicator>;

struct Check {
  const char* name;
  void (*run)(const World&);
};
const std::vector<Check>& checks();

// For the name of a parameterised test.
struct Case {
  Check check;
  int ranks;
};
inline void PrintTo(const Case& c, std::ostream* out) { *out << c.check.name << " on " << c.ranks; }
std::vector<Case> cases(const std::vector<int>& ranks);

}  // namespace shoal::contract
