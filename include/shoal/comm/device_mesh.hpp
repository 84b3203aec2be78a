// Ranks in a grid of five named axes, and the communicators along them.
//
// Rank = (((pp * DP + dp) * CP + cp) * EP + ep) * TP + tp: tp is fastest, so that the ranks of a tensor-parallel group are
// neighbours, on one host.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "shoal/comm/communicator.hpp"

namespace shoal {

// pipeline stages, data shards, context (sequence) shards, expert shards, tensor shards.
enum class Axis : unsigned char { pp, dp, cp, ep, tp };
inline constexpr std::array<Axis, 5> mesh_axes{Axis::pp, Axis::dp, Axis::cp, Axis::ep,
                                               Axis::tp};  // slowest first

std::string_view name(Axis axis);
Axis parse_axis(std::string_view name);  // throws ConfigError naming the axes there are

// A number for each axis: sizes of a mesh, or coordinates of a rank.
struct MeshIndex {
  int pp, dp, cp, ep, tp;
  int operator[](Axis axis) const;
  int& operator[](Axis axis);
  bool operator==(const MeshIndex&) const = default;
};
struct MeshSizes : MeshIndex {
  MeshSizes(int pp_ = 1, int dp_ = 1, int cp_ = 1, int ep_ = 1, int tp_ = 1)
      : MeshIndex{pp_, dp_, cp_, ep_, tp_} {}
  std::string text() const;  // "pp 2 x dp 2 x cp 1 x ep 1 x tp 2"
};

// A set of axes.
class AxisSet {
 public:
  AxisSet(Axis axis) : AxisSet({axis}) {}
  AxisSet(std::initializer_list<Axis> axes);
  bool contains(Axis axis) const { return (bits_ >> static_cast<int>(axis)) & 1u; }
  void add(Axis axis) { bits_ |= 1u << static_cast<int>(axis); }
  std::string text() const;  // "dp x cp"
  auto operator<=>(const AxisSet&) const = default;

 private:
  unsigned bits_ = 0;
};

class DeviceMesh {
 public:
  // Collective: makes a communicator for each axis of more than one rank. Throws ConfigError, the same on all ranks
  // and before anything is made, unless every size is at least 1 and their product is world->size(); the message names every
  // factor and the changes of one axis that would fit.
  DeviceMesh(std::shared_ptr<Communicator> world, const MeshSizes& sizes);

  const std::shared_ptr<Communicator>& world() const { return world_; }
  const MeshSizes& sizes() const { return sizes_; }
  int size(Axis axis) const { return sizes_[axis]; }
  int size(AxisSet axes) const;                           // ranks of the sub-mesh
  const MeshIndex& coordinates() const { return here_; }  // of this rank
  int coordinate(Axis axis) const { return here_[axis]; }
  // Throw ConfigError for what is outside the mesh.
  MeshIndex coordinates_of(int rank) const;
  int rank_of(const MeshIndex& coordinates) const;

  // The ranks that differ from this one along that axis only; a rank's number in it is its coordinate. An axis of size 1
  // has a communicator of this rank alone, which costs nothing.
  std::shared_ptr<Communicator> axis(Axis axis) const;
  // The ranks that differ from this one along those axes only, as one axis: {dp, cp} has dp * cp ranks, numbered by
  // dp * CP + cp (always in the order of mesh_axes). The first call for a set of several axes of more than one rank is
  // collective over the world; later ones return the same communicator.
  std::shared_ptr<Communicator> flatten(AxisSet axes);

 private:
  std::shared_ptr<Communicator> make(AxisSet axes) const;
  AxisSet without_ones(AxisSet axes) const;

  std::shared_ptr<Communicator> world_;
  MeshSizes sizes_;
  MeshIndex here_;
  std::map<AxisSet, std::shared_ptr<Communicator>> made_;
};

}  // namespace shoal
