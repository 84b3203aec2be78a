// What this build contains, and why what is missing is missing: the library's half of `shoal info`.
#pragma once
#include <string>
#include <vector>

namespace shoal {

struct Feature {
  std::string name;  // "mpi", "cuda", ...
  bool present;
  std::string detail;  // a version when present, the reason when not
};

std::string version();            // "0.1.0"
std::string build_description();  // compiler, build type, sanitizers
std::vector<Feature> build_features();

}  // namespace shoal
