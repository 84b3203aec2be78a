// The contract on the backend that SHOAL_COMM names, mpi if none, started by mpirun: every rank runs every check, and
// reports by itself.
#include <gtest/gtest.h>

#include "contract/contract.hpp"
#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/env.hpp"

namespace shoal::contract {
namespace {

std::string backend() { return env::comm_backend().value_or("mpi"); }

const World& world() {
  static const World w = make_world({.backend = backend(), .comm = {}});
  return w;
}

class Mpi : public testing::TestWithParam<Case> {};
TEST_P(Mpi, Holds) {
  if (backend() == "auto")  // on several hosts (tests/hosts)
    ASSERT_EQ(world()->backend(), "local+mpi");
  else
    ASSERT_EQ(world()->backend(), backend());
  ASSERT_EQ(world()->size(), launch_info().world_size);
  GetParam().check.run(world());
}
INSTANTIATE_TEST_SUITE_P(Contract, Mpi, testing::ValuesIn(cases({0})),
                         [](const auto& info) { return std::string(info.param.check.name); });

}  // namespace
}  // namespace shoal::contract
