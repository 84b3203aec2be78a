// The contract of communicators: one list of checks, run against every backend and number of ranks, on all ranks and on
// sub-groups whose ranks are permuted. Each check is called by every rank with a communicator of all of them.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shoal/comm/communicator.hpp"

namespace shoal::contract {

using World = std::shared_ptr<Communicator>;
using Body = std::function<void(const World&)>;

struct Check {
  const char* name;
  void (*run)(const World&);
};
const std::vector<Check>& checks();

// One test: a check, on how many ranks (0: as many as were started), and whether on permuted sub-groups of them.
struct Case {
  Check check;
  int ranks = 0;
  bool permuted = false;

  void run(const World& world) const;
  std::string name() const;
};
inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name(); }
std::vector<Case> cases(const std::vector<int>& ranks);

}  // namespace shoal::contract

// A backend joins by this line. run(ranks, body) calls body(communicator of all ranks) on every rank.
#define SHOAL_CONTRACT(Backend, run_on, ...)                                                          \
  class Backend : public testing::TestWithParam<shoal::contract::Case> {};                            \
  TEST_P(Backend, Holds) {                                                                            \
    run_on(GetParam().ranks, [&](const shoal::contract::World& w) { GetParam().run(w); });            \
  }                                                                                                   \
  INSTANTIATE_TEST_SUITE_P(Contract, Backend, testing::ValuesIn(shoal::contract::cases(__VA_ARGS__)), \
                           [](const auto& info) { return info.param.name(); })
