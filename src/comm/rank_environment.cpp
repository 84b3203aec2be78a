#include "comm/rank_environment.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "shoal/core/threads.hpp"

namespace shoal::comm {
namespace {

constexpr std::array<std::string_view, 4> foreign_prefixes{"OMPI_", "PMI_", "PMIX_", "MPI_LOCAL"};
constexpr std::array<std::string_view, 7> ours{
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "SHOAL_STORE", "SHOAL_TOKEN", "SHOAL_TOKEN_FILE"};

bool passed_on(std::string_view variable) {
  const auto begins = [&](std::string_view prefix) { return variable.substr(0, prefix.size()) == prefix; };
  // OMPI_MCA_ are the user's settings; what the launcher of Open MPI itself says is not.
  if (begins("OMPI_MCA_") && !begins("OMPI_MCA_orte_") && !begins("OMPI_MCA_ess")) return true;
  if (std::any_of(foreign_prefixes.begin(), foreign_prefixes.end(), begins)) return false;
  const std::string_view name = variable.substr(0, variable.find('='));
  return std::find(ours.begin(), ours.end(), name) == ours.end();
}

}  // namespace

std::vector<std::string> rank_environment(int rank, int size, const std::string& store,
                                          const std::string& token) {
  std::vector<std::string> variables;
  for (char** v = environ; *v; ++v)
    if (passed_on(*v)) variables.emplace_back(*v);
  for (const auto& [name, value] : {std::pair{"RANK", rank}, {"LOCAL_RANK", rank}})
    variables.push_back(fmt::format("{}={}", name, value));
  for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"})
    variables.push_back(fmt::format("{}={}", name, size));
  variables.push_back("SHOAL_STORE=" + store);
  variables.push_back("SHOAL_TOKEN=" + token);
  const char* threads = std::getenv("OMP_NUM_THREADS");
  if (!threads || !*threads)
    variables.push_back(fmt::format("OMP_NUM_THREADS={}", std::max(1, hardware_threads() / size)));
  return variables;
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  std::string_view rest = path ? path : "/usr/local/bin:/usr/bin:/bin";
  while (!name.empty()) {
    const std::size_t colon = rest.find(':');
    std::string folder(rest.substr(0, colon));
    const std::string file = (folder.empty() ? "." : folder) + "/" + name;
    struct stat s {};
    if (::stat(file.c_str(), &s) == 0 && S_ISREG(s.st_mode) && ::access(file.c_str(), X_OK) == 0) return file;
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  return {};
}

}  // namespace shoal::comm
