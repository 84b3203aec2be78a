// The contract on the backends that need no launcher.
#include <gtest/gtest.h>

#include "contract/contract.hpp"
#include "shoal/comm/bootstrap.hpp"

namespace shoal::contract {
namespace {

class Local : public testing::TestWithParam<Case> {};
TEST_P(Local, Holds) { run_local(GetParam().ranks, GetParam().check.run); }
#ifdef SHOAL_SANITIZED
const std::vector<int> rank_counts{1, 2, 3, 5};  // eight spinning ranks on two cores take minutes there
#else
const std::vector<int> rank_counts{1, 2, 3, 4, 5, 8};
#endif
INSTANTIATE_TEST_SUITE_P(Contract, Local, testing::ValuesIn(cases(rank_counts)), [](const auto& info) {
  return std::string(info.param.check.name) + "_" + std::to_string(info.param.ranks);
});

class Self : public testing::TestWithParam<Case> {};
TEST_P(Self, Holds) {
  const World world = make_self();
  EXPECT_EQ(world->backend(), "self");
  GetParam().check.run(world);
}
INSTANTIATE_TEST_SUITE_P(Contract, Self, testing::ValuesIn(cases({1})),
                         [](const auto& info) { return std::string(info.param.check.name); });

}  // namespace
}  // namespace shoal::contract
