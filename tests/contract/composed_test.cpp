// The contract where ranks lie on several hosts, played by threads: what is the network there is another communicator
// of the same threads here. tests/hosts runs it on network namespaces.
#include <gtest/gtest.h>

#include <algorithm>

#include "comm/backends/composed/communicator.hpp"
#include "contract/contract.hpp"
#include "shoal/comm/bootstrap.hpp"

namespace shoal::contract {
namespace {

struct Placed {
  const char* name;
  std::vector<int> host_of;  // by rank
};
void PrintTo(const Placed& p, std::ostream* out) { *out << p.name; }

// The second half of the list has unequal hosts, and ranks that are not in the order of hosts.
const std::vector<Placed> placements = {
    {"two_and_two", {0, 0, 1, 1}},
    {"two_two_and_two", {0, 0, 1, 1, 2, 2}},
    {"three_and_one", {0, 0, 0, 1}},
    {"round_robin", {0, 1, 0, 1, 0}},
};

World place(const World& flat, const std::vector<int>& host_of) {
  const int here = host_of[flat->rank()];
  return comm::composed::compose(flat->split(0, flat->rank()), flat->split(here, flat->rank()),
                                 "host " + std::to_string(here), {.check = true});
}

class Composed : public testing::TestWithParam<std::tuple<Placed, Check>> {};
TEST_P(Composed, Holds) {
  const auto& [placed, check] = GetParam();
  run_local(static_cast<int>(placed.host_of.size()), [&](World flat) {
    const World world = place(flat, placed.host_of);
    ASSERT_EQ(world->backend(), "local+local");
    check.run(world);
  });
}
INSTANTIATE_TEST_SUITE_P(Contract, Composed,
                         testing::Combine(testing::ValuesIn(placements), testing::ValuesIn(checks())),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" +
                                  std::get<1>(info.param).name;
                         });

// Larger than what a rail sends at a time, on hosts of unequal sizes, so that all cuts are uneven.
TEST(Compose, LargeBuffersTravelInSegments) {
  run_local(3, [](World flat) {
    constexpr std::int64_t part = 5000011;  // 20 MB a rank
    const World world = place(flat, {0, 0, 1});
    const int n = world->size(), r = world->rank();
    const auto value = [](int q, std::int64_t i) { return static_cast<float>((i % 1021 + 7 * q) % 512); };
    const auto sum = [&](std::int64_t i) { return value(0, i) + value(1, i) + value(2, i); };
    const Tensor in = Tensor::empty({part}, DType::f32, world->allocator());
    const Tensor out = Tensor::empty({part}, DType::f32, world->allocator());
    const Tensor all = Tensor::empty({part * n}, DType::f32, world->allocator());
    float *x = in.as<float>(), *y = out.as<float>(), *z = all.as<float>();
    const auto fill = [&] {
      for (std::int64_t i = 0; i < part; ++i) x[i] = value(r, i);
    };
    const auto same = [&](const float* got, std::int64_t count, const auto& expected, const char* what) {
      for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(got[i], expected(i)) << what << ", element " << i;
    };
    fill();
    world->all_reduce(in, out, ReduceOp::sum);
    same(y, part, sum, "all_reduce");
    world->reduce(in, out, 2, ReduceOp::average);
    if (r == 2)
      same(
          y, part, [&](std::int64_t i) { return sum(i) / 3; }, "reduce");
    world->all_gather(in, all);
    same(
        z, part * n, [&](std::int64_t i) { return value(static_cast<int>(i / part), i % part); },
        "all_gather");
    for (std::int64_t i = 0; i < part * n; ++i) z[i] = value(r, i);
    world->reduce_scatter(all, out, ReduceOp::max);
    same(
        y, part,
        [&](std::int64_t i) {
          const std::int64_t at = r * part + i;
          return std::max({value(0, at), value(1, at), value(2, at)});
        },
        "reduce_scatter");
    world->broadcast(in, 1);
    same(
        x, part, [&](std::int64_t i) { return value(1, i); }, "broadcast");
    // 256 + 1 + 1 in bf16: 258 only when it is rounded once, after both hosts.
    const Tensor small = Tensor::empty({part}, DType::bf16, world->allocator());
    auto* bits = static_cast<std::uint16_t*>(small.data());
    std::fill_n(bits, part, r == 0 ? 0x4380 : 0x3f80);
    world->all_reduce(small);
    ASSERT_EQ(std::count(bits, bits + part, 0x4381), part);
  });
}

// A group that lies on one host, or has one rank on each, needs no composition.
TEST(Compose, PlainGroupsStayPlain) {
  run_local(4, [](World flat) {
    const World world = place(flat, {0, 0, 1, 1});
    EXPECT_EQ(world->split(flat->rank() / 2, 0)->backend(), "local");
    EXPECT_EQ(world->split(flat->rank() % 2, 0)->backend(), "local");
    EXPECT_EQ(world->split(0, -flat->rank())->backend(), "local+local");
  });
}

}  // namespace
}  // namespace shoal::contract
