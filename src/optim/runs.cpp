#include "optim/runs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "shoal/core/error.hpp"

namespace shoal::optim {
namespace {

const ParameterGroup& group_of(const nn::Parameter& p, const std::vector<ParameterGroup>& groups) {
  for (const ParameterGroup& g : groups)
    if (std::find(g.kinds.begin(), g.kinds.end(), p.kind) != g.kinds.end()) return g;
  throw ConfigError(fmt::format("no parameter group covers {} (kind {})", p.name, static_cast<int>(p.kind)));
}

}  // namespace

std::vector<ParameterGroup> default_groups(double weight_decay, bool decay_embeddings) {
  using enum nn::ParameterKind;
  return {{"matrices", {matrix, head}, weight_decay},
          {"embeddings", {embedding}, decay_embeddings ? weight_decay : 0.0},
          {"norms and biases", {norm, bias}, 0.0}};
}

std::vector<Run> make_runs(const parallel::FlatParameters& flat, const std::vector<ParameterGroup>& groups) {
  std::vector<Run> runs;
  std::int64_t state = 0;
  std::size_t s = 0;  // segments and owned ranges are both ascending
  for (const shard::Range& owned : flat.owned) {
    const std::size_t first_run = runs.size();  // runs of two owned ranges are never merged
    while (s < flat.layout.segments.size() &&
           flat.layout.segments[s].offset + flat.layout.segments[s].padded() <= owned.first)
      ++s;
    for (std::size_t i = s; i < flat.layout.segments.size(); ++i) {
      const shard::Segment& segment = flat.layout.segments[i];
      const shard::Range part{std::max(segment.offset, owned.first),
                              std::min(segment.offset + segment.padded(), owned.last)};
      if (segment.offset >= owned.last) break;
      if (part.size() <= 0) continue;
      const double decay = group_of(*flat.parameters[segment.tensor], groups).weight_decay;
      if (runs.size() > first_run && runs.back().weight_decay == decay)
        runs.back().elements.last = part.last;
      else
        runs.push_back({part, state + part.first - owned.first, decay});
    }
    state += owned.size();
  }
  return runs;
}

std::int64_t owned_elements(const parallel::FlatParameters& flat) {
  std::int64_t n = 0;
  for (const shard::Range& r : flat.owned) n += r.size();
  return n;
}

}  // namespace shoal::optim
