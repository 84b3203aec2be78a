#include <gtest/gtest.h>

#include "src/comm/backends/composed/hosts.hpp"

namespace shoal::comm::composed {
namespace {

using Ints = std::vector<int>;

TEST(Hosts, OfEvenContiguousRanks) {
  const Hosts h = hosts_of({"a", "a", "b", "b"});
  EXPECT_EQ(h.host_of, (Ints{0, 0, 1, 1}));
  EXPECT_EQ(h.index_of, (Ints{0, 1, 0, 1}));
  EXPECT_EQ(h.rails, 2);
  EXPECT_TRUE(h.even());
  EXPECT_TRUE(h.contiguous());
  EXPECT_EQ(h.by_rail(), (Ints{0, 2, 1, 3}));
}

TEST(Hosts, OfRanksDealtRoundRobinAndOfUnequalHosts) {
  const Hosts h = hosts_of({"b", "a", "b", "a", "b"});
  EXPECT_EQ(h.ranks, (std::vector<Ints>{{0, 2, 4}, {1, 3}}));
  EXPECT_EQ(h.rails, 2);
  EXPECT_FALSE(h.even());
  EXPECT_FALSE(h.contiguous());
  // Place 2 of host 0 has no partner on host 1: rail 0 carries what is for it.
  EXPECT_EQ(h.rail_of(4), 0);
  EXPECT_EQ(h.by_rail(), (Ints{0, 4, 1, 2, 3}));
}

TEST(Hosts, OneRankIsOneHost) {
  const Hosts h = hosts_of({"a"});
  EXPECT_EQ(h.count(), 1);
  EXPECT_EQ(h.rails, 1);
}

}  // namespace
}  // namespace shoal::comm::composed
