// Meshes of ranks as threads: who stands where, and who shares a communicator with whom.
#include "shoal/comm/device_mesh.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <mutex>
#include <numeric>
#include <set>
#include <vector>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"
#include "support/expect_message.hpp"

namespace shoal {
namespace {

std::vector<MeshSizes> factorings(int ranks) {
  std::vector<MeshSizes> all;
  for (int pp = 1; pp <= ranks; ++pp)
    for (int dp = 1; dp <= ranks / pp; ++dp)
      for (int cp = 1; cp <= ranks / pp / dp; ++cp)
        for (int ep = 1; ep <= ranks / pp / dp / cp; ++ep)
          if (const int tp = ranks / (pp * dp * cp * ep); pp * dp * cp * ep * tp == ranks)
            all.emplace_back(pp, dp, cp, ep, tp);
  return all;
}

// The ranks of a communicator, by their number in it.
std::vector<int> members(Communicator& c, int world_rank) {
  std::int32_t mine = world_rank;
  std::vector<std::int32_t> all(static_cast<std::size_t>(c.size()));
  c.all_gather(Tensor::from_blob(&mine, {1}, DType::i32, Device{}),
               Tensor::from_blob(all.data(), {c.size()}, DType::i32, Device{}));
  return {all.begin(), all.end()};
}

// Independent of the library: all ranks whose coordinates equal those of `rank` but for the axes in `free`, in the order
// of their numbers, which is that of the coordinates read with tp fastest.
std::vector<int> expected(const MeshSizes& s, int rank, const std::set<Axis>& free) {
  const auto digits = [&s](int r) {
    return std::vector<int>{r / (s.dp * s.cp * s.ep * s.tp), r / (s.cp * s.ep * s.tp) % s.dp,
                            r / (s.ep * s.tp) % s.cp, r / s.tp % s.ep, r % s.tp};
  };
  std::vector<int> found;
  for (int r = 0; r < s.pp * s.dp * s.cp * s.ep * s.tp; ++r) {
    bool same = true;
    for (std::size_t a = 0; a < 5; ++a)
      same = same && (free.count(static_cast<Axis>(a)) || digits(r)[a] == digits(rank)[a]);
    if (same) found.push_back(r);
  }
  return found;
}

void check_mesh(const std::shared_ptr<Communicator>& world, const MeshSizes& sizes) {
  SCOPED_TRACE(fmt::format("rank {} of mesh {}", world->rank(), sizes.text()));
  DeviceMesh mesh(world, sizes);
  EXPECT_EQ(mesh.rank_of(mesh.coordinates()), world->rank());
  for (int r = 0; r < world->size(); ++r) EXPECT_EQ(mesh.rank_of(mesh.coordinates_of(r)), r);
  for (const Axis a : mesh_axes) {
    const auto c = mesh.axis(a);
    EXPECT_EQ(c->size(), sizes[a]);
    EXPECT_EQ(c->rank(), mesh.coordinate(a));
    EXPECT_EQ(members(*c, world->rank()), expected(sizes, world->rank(), {a}));
    EXPECT_EQ(mesh.axis(a), c);
  }
  for (const auto& [set, axes] : std::vector<std::pair<AxisSet, std::set<Axis>>>{
           {{Axis::dp, Axis::cp}, {Axis::dp, Axis::cp}},
           {{Axis::tp, Axis::pp}, {Axis::pp, Axis::tp}},
           {{Axis::dp, Axis::cp, Axis::ep}, {Axis::dp, Axis::cp, Axis::ep}},
           {{Axis::pp, Axis::dp, Axis::cp, Axis::ep, Axis::tp},
            {Axis::pp, Axis::dp, Axis::cp, Axis::ep, Axis::tp}},
           {{}, {}}}) {
    const auto c = mesh.flatten(set);
    EXPECT_EQ(c->size(), mesh.size(set));
    EXPECT_EQ(members(*c, world->rank()), expected(sizes, world->rank(), axes)) << set.text();
    EXPECT_EQ(mesh.flatten(set), c);
  }
}

TEST(DeviceMesh, EveryFactoring) {
  for (const int ranks : {1, 2, 4})
    for (const MeshSizes& sizes : factorings(ranks))
      run_local(ranks, [&](auto world) { check_mesh(world, sizes); });
}

TEST(DeviceMesh, LargerWorlds) {
  for (const MeshSizes& sizes :
       {MeshSizes(2, 2, 1, 1, 2), MeshSizes(1, 2, 2, 2, 1), MeshSizes(8, 1, 1, 1, 1)})
    run_local(8, [&](auto world) { check_mesh(world, sizes); });
  for (const MeshSizes& sizes :
       {MeshSizes(3, 2, 1, 1, 2), MeshSizes(1, 3, 2, 2, 1), MeshSizes(2, 1, 1, 2, 3)})
    run_local(12, [&](auto world) { check_mesh(world, sizes); });
}

TEST(DeviceMesh, TpIsFastest) {
  run_local(12, [](auto world) {
    DeviceMesh mesh(world, MeshSizes(2, 3, 1, 1, 2));
    const MeshIndex seven{1, 0, 0, 0, 1};
    EXPECT_EQ(mesh.coordinates_of(7), seven);
    EXPECT_EQ(mesh.rank_of({0, 2, 0, 0, 1}), 5);
    if (world->rank() == 7) {
      EXPECT_EQ(members(*mesh.axis(Axis::tp), 7), (std::vector<int>{6, 7}));
    } else {
      members(*mesh.axis(Axis::tp), world->rank());
    }
  });
}

TEST(DeviceMesh, AnAxisOfOneRankCostsNothing) {
  run_local(2, [](auto world) {
    DeviceMesh mesh(world, MeshSizes(1, 2, 1, 1, 1));
    EXPECT_EQ(mesh.axis(Axis::tp)->backend(), "self");
    EXPECT_EQ(mesh.axis(Axis::tp), mesh.axis(Axis::pp));  // one for all of them
    EXPECT_EQ(mesh.flatten({Axis::dp, Axis::cp}), mesh.axis(Axis::dp));
    EXPECT_EQ(mesh.flatten({Axis::cp, Axis::ep}), mesh.axis(Axis::tp));
    if (world->rank() == 0) mesh.flatten({Axis::dp, Axis::tp});  // not collective, as nothing is made
  });
}

TEST(DeviceMesh, SizesThatDoNotFitAreRefusedWithEveryFactor) {
  run_local(8, [](auto world) {
    const auto refuse = [&](const MeshSizes& s, const std::string& message) {
      EXPECT_MESSAGE(DeviceMesh(world, s), ConfigError, message);
    };
    refuse({2, 2, 1, 1, 3},
           "mesh pp 2 x dp 2 x cp 1 x ep 1 x tp 3 = 12 ranks, but the world has 8; tp 2 would fit");
    refuse({2, 2, 1, 1, 1}, "= 4 ranks, but the world has 8; pp 4 or dp 4 or cp 2 or ep 2 or tp 2 would fit");
    refuse({3, 3, 1, 1, 1}, "= 9 ranks, but the world has 8; no change of one axis alone would fit");
    refuse({1, 0, 1, 1, 8}, "mesh pp 1 x dp 0 x cp 1 x ep 1 x tp 8: dp = 0: expected at least 1");
    refuse({-2, -4, 1, 1, 1}, "pp = -2: expected at least 1");
    refuse({1 << 30, 1 << 30, 1 << 30, 1, 8}, "= more than 2^63 ranks, but the world has 8; no change");
    refuse({1 << 16, 1 << 16, 1, 1, 1}, "= 4294967296 ranks");
    DeviceMesh mesh(world, {2, 2, 1, 1, 2});
    EXPECT_MESSAGE(mesh.coordinates_of(8), ConfigError, "rank 8 is not in the mesh pp 2 x dp 2");
    EXPECT_MESSAGE(mesh.rank_of({0, 2, 0, 0, 0}), ConfigError, "coordinate dp 2 is not in the mesh");
    EXPECT_MESSAGE(parse_axis("sp"), ConfigError, "axis sp: expected pp, dp, cp, ep or tp");
  });
}

}  // namespace
}  // namespace shoal
