#include "shoal/comm/device_mesh.hpp"

#include <fmt/format.h>

#include <functional>
#include <vector>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"

namespace shoal {
namespace {

constexpr int MeshIndex::*members[] = {&MeshIndex::pp, &MeshIndex::dp, &MeshIndex::cp, &MeshIndex::ep,
                                       &MeshIndex::tp};
constexpr std::string_view names[] = {"pp", "dp", "cp", "ep", "tp"};

// The product of all sizes but those of `left_out`; -1 where it does not fit.
std::int64_t product(const MeshIndex& sizes, const Axis* left_out = nullptr) {
  std::int64_t p = 1;
  for (const Axis a : mesh_axes)
    if (!(left_out && a == *left_out) && __builtin_mul_overflow(p, std::int64_t{sizes[a]}, &p)) return -1;
  return p;
}

// "dp 4 would fit, or tp 1"; the changes of one axis after which the sizes make `ranks`.
std::string changes(const MeshIndex& sizes, int ranks) {
  std::string text;
  for (const Axis a : mesh_axes) {
    const std::int64_t others = product(sizes, &a);
    if (others > 0 && ranks % others == 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : " or ", name(a), ranks / others);
  }
  return text.empty() ? "no change of one axis alone would fit" : text + " would fit";
}

void check(const MeshSizes& sizes, int ranks) {
  for (const Axis a : mesh_axes)
    if (sizes[a] < 1)
      throw ConfigError(
          fmt::format("mesh {}: {} = {}: expected at least 1", sizes.text(), name(a), sizes[a]));
  const std::int64_t p = product(sizes);
  if (p == ranks) return;
  throw ConfigError(fmt::format("mesh {} = {} ranks, but the world has {}; {}", sizes.text(),
                                p < 0 ? "more than 2^63" : fmt::format("{}", p), ranks,
                                changes(sizes, ranks)));
}

MeshIndex place(int rank, const MeshIndex& sizes) {
  MeshIndex at{};
  for (auto a = mesh_axes.rbegin(); a != mesh_axes.rend(); ++a) {
    at[*a] = rank % sizes[*a];
    rank /= sizes[*a];
  }
  return at;
}

// The number among the ranks that differ along the axes of `among` only.
int number(const MeshIndex& at, const MeshIndex& sizes, const std::function<bool(Axis)>& among) {
  int n = 0;
  for (const Axis a : mesh_axes)
    if (among(a)) n = n * sizes[a] + at[a];
  return n;
}

}  // namespace

std::string_view name(Axis axis) { return names[static_cast<std::size_t>(axis)]; }

Axis parse_axis(std::string_view text) {
  for (const Axis a : mesh_axes)
    if (name(a) == text) return a;
  throw ConfigError(fmt::format("axis {}: expected pp, dp, cp, ep or tp", text));
}

int MeshIndex::operator[](Axis axis) const { return this->*members[static_cast<std::size_t>(axis)]; }
int& MeshIndex::operator[](Axis axis) { return this->*members[static_cast<std::size_t>(axis)]; }

std::string MeshSizes::text() const {
  return fmt::format("pp {} x dp {} x cp {} x ep {} x tp {}", pp, dp, cp, ep, tp);
}

AxisSet::AxisSet(std::initializer_list<Axis> axes) {
  for (const Axis a : axes) add(a);
}

std::string AxisSet::text() const {
  std::string text;
  for (const Axis a : mesh_axes)
    if (contains(a)) text += fmt::format("{}{}", text.empty() ? "" : " x ", name(a));
  return text;
}

DeviceMesh::DeviceMesh(std::shared_ptr<Communicator> world, const MeshSizes& sizes)
    : world_(std::move(world)), sizes_(sizes), here_() {
  check(sizes_, world_->size());
  here_ = place(world_->rank(), sizes_);
  made_.emplace(AxisSet({}), make_self());
  for (const Axis a : mesh_axes)
    if (sizes_[a] > 1) made_.emplace(AxisSet(a), make(a));
}

int DeviceMesh::size(AxisSet axes) const {
  int n = 1;
  for (const Axis a : mesh_axes)
    if (axes.contains(a)) n *= sizes_[a];
  return n;
}

MeshIndex DeviceMesh::coordinates_of(int rank) const {
  if (rank < 0 || rank >= world_->size())
    throw ConfigError(
        fmt::format("rank {} is not in the mesh {} of {} ranks", rank, sizes_.text(), world_->size()));
  return place(rank, sizes_);
}

int DeviceMesh::rank_of(const MeshIndex& at) const {
  for (const Axis a : mesh_axes)
    if (at[a] < 0 || at[a] >= sizes_[a])
      throw ConfigError(fmt::format("coordinate {} {} is not in the mesh {}: expected 0 to {}", name(a),
                                    at[a], sizes_.text(), sizes_[a] - 1));
  return number(at, sizes_, [](Axis) { return true; });
}

AxisSet DeviceMesh::without_ones(AxisSet axes) const {
  AxisSet rest({});
  for (const Axis a : mesh_axes)
    if (axes.contains(a) && sizes_[a] > 1) rest.add(a);
  return rest;
}

std::shared_ptr<Communicator> DeviceMesh::make(AxisSet axes) const {
  const int color = number(here_, sizes_, [&](Axis a) { return !axes.contains(a); });
  const int key = number(here_, sizes_, [&](Axis a) { return axes.contains(a); });
  return world_->split(color, key);
}

std::shared_ptr<Communicator> DeviceMesh::axis(Axis axis) const { return made_.at(without_ones(axis)); }

std::shared_ptr<Communicator> DeviceMesh::flatten(AxisSet axes) {
  const AxisSet set = without_ones(axes);
  auto& communicator = made_[set];
  if (!communicator) communicator = make(set);
  return communicator;
}

}  // namespace shoal
