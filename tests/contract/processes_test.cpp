// The contract on `local` with ranks as processes: with private buffers, which are transferred in stages, and with
// buffers from shared memory, which all ranks see.
#include "support/processes.hpp"
#include "contract/contract.hpp"
#include "contract/values.hpp"

namespace shoal::contract {
namespace {

#ifdef SHOAL_SANITIZED
const std::vector<int> rank_counts{2, 3};
#else
const std::vector<int> rank_counts{1, 2, 3, 4, 5, 8};
#endif

void on_private_buffers(int ranks, const Body& body) {
  test::expect_success(test::run_processes(ranks, [&](const World& w) {
    ASSERT_EQ(w->backend(), "local");
    body(w);
  }));
}

void on_shared_buffers(int ranks, const Body& body) {
  test::expect_success(test::run_processes(ranks, [&](const World& w) {
    constexpr std::int64_t bytes = std::int64_t{96} << 20;
    const Tensor block = Tensor::empty({bytes}, DType::u8, w->allocator());
    memory() = test::make_arena(block.data(), bytes, default_allocator({}));
    body(w);
    memory() = nullptr;
  }));
}

SHOAL_CONTRACT(Private, on_private_buffers, rank_counts);
SHOAL_CONTRACT(Shared, on_shared_buffers, rank_counts);

}  // namespace
}  // namespace shoal::contract
