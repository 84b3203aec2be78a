// The contract on `local` with ranks as processes, by each way that data go: private buffers through stages, private
// buffers that the others read where they lie, and buffers from shared memory, which all ranks see.
#include "support/processes.hpp"

#include <cstdlib>
#include <fstream>

#include "contract/contract.hpp"
#include "contract/values.hpp"
#include "support/temp_dir.hpp"

namespace shoal::contract {
namespace {

#ifdef SHOAL_SANITIZED
const std::vector<int> rank_counts{2, 3};
const std::vector<int> few{3};
#else
const std::vector<int> rank_counts{1, 2, 3, 4, 5, 8};
const std::vector<int> few{2, 3, 5};
#endif

// The thresholds of the worlds that are made while it lives.
class Thresholds {
 public:
  explicit Thresholds(const std::string& text) {
    const auto file = dir_.path() / "thresholds";
    std::ofstream(file) << text;
    ::setenv("SHOAL_COMM_TUNING", file.c_str(), 1);
  }
  ~Thresholds() { ::unsetenv("SHOAL_COMM_TUNING"); }
  Thresholds(const Thresholds&) = delete;
  Thresholds& operator=(const Thresholds&) = delete;

 private:
  const test::TempDir dir_;
};

void on_processes(int ranks, const char* way, const Body& body) {
  test::expect_success(test::run_processes(ranks, [&](const World& w) {
    ASSERT_EQ(w->backend(), "local");
    if (ranks > 1) {
      ASSERT_EQ(w->describe_algorithm("all_gather", 1 << 20, false), std::string("local ") + way);
    }
    body(w);
  }));
}

void through_stages(int ranks, const Body& body) {
  const Thresholds never(
      "local.single_copy_bytes = 1000000000000\nlocal.single_copy_sum_bytes = 1000000000000\n");
  on_processes(ranks, "staged", body);
}

// Also what would go beside the header otherwise. A machine that lets no process read another's memory has no such way.
void from_where_they_lie(int ranks, const Body& body) {
  const Thresholds always(
      "local.single_copy_bytes = 0\nlocal.single_copy_sum_bytes = 0\nlocal.inline_bytes = 0\n");
  static const std::string way =
      test::run_processes(
          2, [](const World& w) { test::report(w->describe_algorithm("all_gather", 1 << 20, false)); })[0]
          .report;
  if (way != "local single copy")
    GTEST_SKIP() << "this machine does not let a process read another's memory (process_vm_readv): " << way;
  on_processes(ranks, "single copy", body);
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

// Ranks that do not see each other's processes open segments by names, which are gone as soon as all have.
void by_names(int ranks, const Body& body) {
  test::expect_success(test::run_processes(
      ranks,
      [&](const World& w) {
        const Tensor seen = Tensor::empty({1 << 20}, DType::u8, w->allocator());
        ASSERT_EQ(w->describe_algorithm("all_gather", 1 << 20, true), "local direct");
        ASSERT_EQ(w->describe_algorithm("all_gather", 1 << 20, false), "local staged");
        w->barrier();
        std::ifstream maps("/proc/self/maps");
        for (std::string line; std::getline(maps, line);)
          if (line.find("/dev/shm") != std::string::npos) {
            EXPECT_NE(line.find("(deleted)"), std::string::npos) << line;
          }
        body(w);
      },
      {}, true));
}

SHOAL_CONTRACT(Staged, through_stages, rank_counts);
SHOAL_CONTRACT(Named, by_names, {3});
SHOAL_CONTRACT(Copied, from_where_they_lie, few);
SHOAL_CONTRACT(Shared, on_shared_buffers, rank_counts);

}  // namespace
}  // namespace shoal::contract
