// Runs: maximal ranges of the flat buffers that this rank owns and whose tensors have the same settings. An optimizer
// launches one kernel a run.
#pragma once
#include <cstdint>
#include <vector>

#include "shoal/optim/optimizer.hpp"

namespace shoal::optim {

// What an update of a tensor goes by.
struct Settings {
  double lr_scale = 1, weight_decay = 0, beta1 = 0, beta2 = 0, eps = 0, momentum = 0;
  bool matrix = false;  // a matrix of a hidden layer: muon's
  bool operator==(const Settings&) const = default;
};

// A box of a logical tensor as it lies in the flat buffers.
struct Part {
  shard::Range elements;
  std::int64_t parameter = 0;
  int tensor = 0;            // of the parameter's placement
  std::int64_t logical = 0;  // of all logical tensors in model order
  shard::Box box;
};
std::vector<Part> parts_of(const parallel::FlatParameters& flat);  // in the order of the buffers

struct Logical {
  std::int64_t parameter = 0;
  int tensor = 0;
  Settings settings;
};
// The logical tensors in model order, with the settings that the rules of `config` give them. Throws ConfigError for a
// rule that covers nothing, or sets what is impossible.
std::vector<Logical> logical_tensors(const OptimizerConfig& config, const parallel::FlatParameters& flat);

struct Run {
  shard::Range elements;  // of the flat values and gradients; padding between tensors may be in it
  std::int64_t state =
      0;  // where it begins in the state tensors, which hold the owned ranges one after another
  Settings settings;
};
std::vector<Run> make_runs(const parallel::FlatParameters& flat, const std::vector<Logical>& tensors);

std::int64_t owned_elements(const parallel::FlatParameters& flat);

}  // namespace shoal::optim
