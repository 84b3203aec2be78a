// The one list of job keys: it drives reading, writing, messages and docs/job.md.
#pragma once
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "shoal/train/job.hpp"

namespace shoal::train {

// Two numbers of the optimizer written as one key: betas = [0.9, 0.999].
struct Betas {
  double* first;
  double* second;
};
using Ref = std::variant<bool*, int*, std::int64_t*, std::uint64_t*, double*, std::string*,
                         models::ModelType*, Betas, std::vector<optim::ParameterGroup>*>;

struct Key {
  const char* name;  // "train.steps"
  Ref (*ref)(Job&);  // where the value lies
  const char* doc;   // one line for docs/job.md
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;                 // min itself is not accepted
  bool below_max = false;                 // max itself is not accepted
  std::vector<std::string> choices = {};  // strings: what is accepted; empty: anything
  const char* or_path = nullptr;          // beside the choices: a path, and of what
  std::vector<std::string> built = {};    // values that this release can run; empty: every accepted one
};

const std::vector<Key>& job_keys();
std::vector<Key> training_keys();  // its parts, in order, after models, data and ranks
std::vector<Key> optimizer_keys();
std::vector<Key> run_keys();
const Key* find_key(const std::string& name);
bool is_section(const std::string& name);
// What follows the name of an unknown key, or of an unknown section: the nearest known one, by edit distance, and,
// where it is the section that is unknown, the sections there are.
std::string hint(const std::string& name);
std::string section_hint(const std::string& name);

std::string section(const Key& key);                     // "train"
std::string leaf(const Key& key);                        // "steps"
std::string accepts(const Key& key);                     // "an integer, at least 1"
std::string value_text(const Key& key, const Job& job);  // in TOML syntax
std::string groups_text(const std::vector<optim::ParameterGroup>& groups);
void check_value(const Key& key, const Job& job);  // range and choices; ConfigError
void check_built(const Key& key, const Job& job);  // ConfigError "... is not built yet"

}  // namespace shoal::train
