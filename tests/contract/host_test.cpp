// The contract on the backends that need no launcher.
#include "contract/contract.hpp"
#include "contract/values.hpp"
#include "shoal/comm/bootstrap.hpp"

namespace shoal::contract {
namespace {

#ifdef SHOAL_SANITIZED
const std::vector<int> rank_counts{1, 2, 3, 5};  // eight spinning ranks on two cores take minutes there
#else
const std::vector<int> rank_counts{1, 2, 3, 4, 5, 8};
#endif

void on_threads(int ranks, const Body& body) {
  every_big() = true;
  run_local(ranks, body);
}
void on_self(int, const Body& body) {
  const World world = make_self();
  EXPECT_EQ(world->backend(), "self");
  body(world);
}

SHOAL_CONTRACT(Local, on_threads, rank_counts);
SHOAL_CONTRACT(Self, on_self, {1});

}  // namespace
}  // namespace shoal::contract
