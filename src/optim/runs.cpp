#include "optim/runs.hpp"

#include <algorithm>

namespace shoal::optim {

std::vector<Part> parts_of(const parallel::FlatParameters& flat) {
  std::vector<std::int64_t> first_logical;
  std::int64_t logical = 0;
  for (const nn::Parameter* p : flat.parameters) {
    first_logical.push_back(logical);
    logical += static_cast<std::int64_t>(p->placement.logical.size());
  }
  std::vector<Part> parts;
  for (const shard::Segment& s : flat.layout.segments) {
    const nn::Parameter& p = *flat.parameters[s.tensor];
    for (const auto& b : p.placement.pieces[s.piece]) {
      const std::int64_t first = s.offset + b.offset, n = b.box.rows * b.box.cols;
      if (n > 0)
        parts.push_back({{first, first + n}, s.tensor, b.tensor, first_logical[s.tensor] + b.tensor, b.box});
    }
  }
  return parts;
}

std::vector<Run> make_runs(const parallel::FlatParameters& flat, const std::vector<Logical>& tensors) {
  std::vector<Run> runs;
  const std::vector<Part> parts = parts_of(flat);
  std::int64_t state = 0;
  std::size_t first = 0;  // parts and owned ranges are both ascending
  for (const shard::Range& owned : flat.owned) {
    const std::size_t first_run = runs.size();  // runs of two owned ranges are never merged
    while (first < parts.size() && parts[first].elements.last <= owned.first) ++first;
    for (std::size_t i = first; i < parts.size() && parts[i].elements.first < owned.last; ++i) {
      // With the padding up to the end of its chunk.
      std::int64_t end = shard::round_up(parts[i].elements.last, shard::chunk);
      if (i + 1 < parts.size()) end = std::min(end, parts[i + 1].elements.first);
      const shard::Range r{std::max(parts[i].elements.first, owned.first), std::min(end, owned.last)};
      const Settings& settings = tensors[static_cast<std::size_t>(parts[i].logical)].settings;
      if (runs.size() > first_run && runs.back().settings == settings)
        runs.back().elements.last = r.last;
      else
        runs.push_back({r, state + r.first - owned.first, settings});
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
