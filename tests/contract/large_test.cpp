// More than 2^31 elements, where a 32-bit count anywhere would wrap: two ranks, in place, untouched pages being zero, so
// that BF16 needs 8 GiB and UINT8 4 GiB. Runs by itself (CMakeLists.txt), and only where there is room.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "contract/values.hpp"
#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"

namespace shoal::contract {
namespace {

constexpr std::int64_t edge = std::int64_t{1} << 31, count = edge + 8;
constexpr std::int64_t places[] = {0, 1, edge - 2, edge - 1, edge, count - 1};  // edge - 1 is the 2^31-th
constexpr double needed_gib = 12;

double available_gib() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  double kib = 0;
  while (file >> word)
    if (word == "MemAvailable:") file >> kib;
  return kib / (1 << 20);
}

Tensor zeros(DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(count * size_of(dtype));
  void* p =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw DeviceError("no " + std::to_string(bytes) + " bytes of address space");
  return Tensor::from_blob(p, {count}, dtype, {},
                           std::shared_ptr<void>(p, [bytes](void* q) { ::munmap(q, bytes); }));
}

void check(DType dtype) {
#ifdef SHOAL_SANITIZED
  GTEST_SKIP() << "8 GiB would be more with a sanitizer's shadow";
#endif
  if (available_gib() < needed_gib)
    GTEST_SKIP() << "needs " << needed_gib << " GiB of free memory, and " << available_gib() << " are there";
  run_local(2, [&](const std::shared_ptr<Communicator>& w) {
    const int r = w->rank();
    const Tensor t = zeros(dtype);
    for (std::int64_t k = 0; k < 6; ++k) put(t, places[k], 10.0 * k + 3 * r + 1);
    w->all_reduce(t);
    for (std::int64_t k = 0; k < 6; ++k)
      EXPECT_EQ(get(t, places[k]), 20.0 * k + 5) << "sum, element " << places[k];
    EXPECT_EQ(get(t, 2), 0.0);
    EXPECT_EQ(get(t, count - 2), 0.0);
    w->barrier();
    for (std::int64_t k = 0; k < 6; ++k) put(t, places[k], r == 1 ? 7.0 * k + 2 : 99.0);
    w->broadcast(t, 1);
    for (std::int64_t k = 0; k < 6; ++k)
      EXPECT_EQ(get(t, places[k]), 7.0 * k + 2) << "broadcast, element " << places[k];
  });
}

TEST(Large, Bf16) { check(DType::bf16); }
TEST(Large, U8) { check(DType::u8); }

}  // namespace
}  // namespace shoal::contract
