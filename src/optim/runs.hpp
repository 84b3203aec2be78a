// Runs: maximal ranges of the flat buffers that this rank owns and that one parameter group covers. An
// optimizer launches one kernel a run.
#pragma once
#include <cstdint>
#include <vector>

#include "shoal/optim/optimizer.hpp"

namespace shoal::optim {

struct Run {
  shard::Range elements;  // of the flat values and gradients
  std::int64_t state =
      0;  // where it begins in the state tensors, which hold the owned ranges one after another
  double weight_decay = 0;
};

// Throws ConfigError naming a parameter that no group covers.
std::vector<Run> make_runs(const parallel::FlatParameters& flat, const std::vector<ParameterGroup>& groups);

std::int64_t owned_elements(const parallel::FlatParameters& flat);

}  // namespace shoal::optim
