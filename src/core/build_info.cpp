#include "shoal/core/build_info.hpp"

#include <fmt/format.h>

#include "shoal_build_config.hpp"

namespace shoal {

std::string version() { return SHOAL_VERSION; }

std::string build_description() {
  const std::string sanitizers = SHOAL_SANITIZERS;
  return fmt::format("{}, {}{}", SHOAL_COMPILER, SHOAL_BUILD_TYPE,
                     sanitizers.empty() ? "" : ", sanitizers: " + sanitizers);
}

std::vector<Feature> build_features() {
  return {{"openmp", SHOAL_HAVE_OPENMP != 0, SHOAL_WHY_OPENMP},
          {"mpi", SHOAL_HAVE_MPI != 0, SHOAL_WHY_MPI},
          {"cuda", SHOAL_HAVE_CUDA != 0, SHOAL_WHY_CUDA},
          {"nccl", SHOAL_HAVE_NCCL != 0, SHOAL_WHY_NCCL},
          {"python", SHOAL_HAVE_PYTHON != 0, SHOAL_WHY_PYTHON}};
}

}  // namespace shoal
