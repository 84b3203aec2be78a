// Parameter groups: rules that say which settings an update of a logical tensor has.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "shoal/nn/parameter.hpp"

namespace shoal::optim {

// A rule: it covers the logical tensors for which all its conditions hold; those left out hold always. What it does not
// set is as it would be without it.
struct ParameterGroup {
  std::string name;  // "matrices": for messages
  // Conditions.
  std::vector<nn::ParameterKind> kinds;  // empty: any
  std::string pattern;       // of the logical tensor's name, with * and ?: "blocks.*.mlp.*"; empty: any
  int dims = 0;              // 1: vectors, 2: matrices; 0: any
  std::optional<bool> tied;  // used by embedding and head alike
  // Settings.
  std::optional<double> lr_scale;  // multiplies the learning rate
  std::optional<double> weight_decay, beta1, beta2, eps, momentum;
  std::optional<bool> muon;  // false: a matrix that muon leaves to adamw
};

// Matrices (heads included) decay, norms and biases do not, embeddings only when asked.
std::vector<ParameterGroup> default_groups(double weight_decay, bool decay_embeddings = false);

}  // namespace shoal::optim
