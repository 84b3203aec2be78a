// The contract on mpi, started by mpirun: every rank runs every check, and reports by itself.
#include <gtest/gtest.h>

#include "contract/contract.hpp"
#include "shoal/comm/bootstrap.hpp"

namespace shoal::contract {
namespace {

const World& world() {
  static const World w = make_world();
  return w;
}

class Mpi : public testing::TestWithParam<Case> {};
TEST_P(Mpi, Holds) {
  ASSERT_EQ(world()->backend(), "mpi");
  ASSERT_EQ(world()->size(), launch_info().world_size);
  GetParam().check.run(world());
}
INSTANTIATE_TEST_SUITE_P(Contract, Mpi, testing::ValuesIn(cases({0})),
                         [](const auto& info) { return std::string(info.param.check.name); });

}  // namespace
}  // namespace shoal::contract
