// The rules of optimizer.groups in TOML. toml++ is heavy to compile: only the reader includes this.
#pragma once
#include <toml++/toml.h>

#include <string>
#include <vector>

#include "shoal/optim/groups.hpp"

namespace shoal::train {

// `where` is "job.toml:3: " or "". Throws ConfigError for what is not an array of tables, naming the key and what it
// takes.
std::vector<optim::ParameterGroup> groups_of(const toml::array& array, const std::string& where);

}  // namespace shoal::train
