// The contract on `local` with ranks as processes: with private buffers, which are transferred in stages, and with
// buffers from shared memory, which all ranks see.
#include <gtest/gtest.h>

#include "contract/contract.hpp"
#include "contract/values.hpp"
#include "support/processes.hpp"

namespace shoal::contract {
namespace {

#ifdef SHOAL_SANITIZED
const std::vector<int> rank_counts{2, 3};
#else
const std::vector<int> rank_counts{1, 2, 3, 4, 5, 8};
#endif
std::string name_of(const testing::TestParamInfo<Case>& info) {
  return std::string(info.param.check.name) + "_" + std::to_string(info.param.ranks);
}

class Private : public testing::TestWithParam<Case> {};
TEST_P(Private, Holds) {
  test::expect_success(test::run_processes(GetParam().ranks, [](const World& w) {
    ASSERT_EQ(w->backend(), "local");
    GetParam().check.run(w);
  }));
}
INSTANTIATE_TEST_SUITE_P(Contract, Private, testing::ValuesIn(cases(rank_counts)), name_of);

class Shared : public testing::TestWithParam<Case> {};
TEST_P(Shared, Holds) {
  test::expect_success(test::run_processes(GetParam().ranks, [](const World& w) {
    constexpr std::int64_t bytes = std::int64_t{96} << 20;
    const Tensor block = Tensor::empty({bytes}, DType::u8, w->allocator());
    memory() = test::make_arena(block.data(), bytes, default_allocator({}));
    GetParam().check.run(w);
    memory() = nullptr;
  }));
}
INSTANTIATE_TEST_SUITE_P(Contract, Shared, testing::ValuesIn(cases(rank_counts)), name_of);

}  // namespace
}  // namespace shoal::contract
