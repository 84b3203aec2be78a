// How layers make their parameters.
#pragma once
#include <utility>

#include "shoal/nn/parameter.hpp"

namespace shoal::nn {

// A gradient sums over the data shards and then, where it has parts, over `part_axis`: "token_shard" or "use".
inline Parameter make_parameter(std::string name, ParameterKind kind, shard::Placement placement,
                                const Shape& shape, std::int64_t parts = 1,
                                const char* part_axis = "token_shard") {
  placement.partial_axes = {"data"};
  if (parts > 1) placement.partial_axes.emplace_back(part_axis);
  Parameter p;
  p.name = std::move(name);
  p.kind = kind;
  p.placement = std::move(placement);
  p.shape = shape;
  p.parts = parts;
  return p;
}

}  // namespace shoal::nn
