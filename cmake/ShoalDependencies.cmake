# Third-party packages. What is optional and not found is recorded with the reason, for `shoal info`.
include(FindPackageHandleStandardArgs)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)           # formatting of messages
find_package(spdlog REQUIRED)        # logging
find_package(CLI11 REQUIRED)         # command-line arguments
find_package(tomlplusplus QUIET)     # job files
if(NOT tomlplusplus_FOUND)
  find_path(TOMLPP_INCLUDE_DIR toml++/toml.h REQUIRED)
  add_library(shoal_tomlpp INTERFACE)
  target_include_directories(shoal_tomlpp SYSTEM INTERFACE ${TOMLPP_INCLUDE_DIR})
  add_library(tomlplusplus::tomlplusplus ALIAS shoal_tomlpp)
endif()
find_package(nlohmann_json REQUIRED) # metrics and safetensors headers
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)   # checksums
find_path(DNNL_INCLUDE_DIR dnnl.h REQUIRED)       # matrix products on the CPU
find_library(DNNL_LIBRARY NAMES dnnl REQUIRED)
add_library(shoal_dnnl INTERFACE)
target_include_directories(shoal_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(shoal_dnnl INTERFACE ${DNNL_LIBRARY})

# shoal_feature(NAME found reason): settles SHOAL_HAVE_NAME and SHOAL_WHY_NAME from SHOAL_WITH_NAME.
function(shoal_feature name found reason)
  set(want ${SHOAL_WITH_${name}})
  if(want STREQUAL "OFF")
    set(have 0)
    set(why "switched off (SHOAL_WITH_${name}=OFF)")
  elseif(found)
    set(have 1)
    set(why "")
  elseif(want STREQUAL "ON")
    message(FATAL_ERROR "SHOAL_WITH_${name}=ON, but ${reason}")
  else()
    set(have 0)
    set(why "${reason}")
  endif()
  set(SHOAL_HAVE_${name} ${have} PARENT_SCOPE)
  set(SHOAL_WHY_${name} "${why}" PARENT_SCOPE)
  if(have)
    message(STATUS "shoal: with ${name}")
  else()
    message(STATUS "shoal: without ${name}: ${why}")
  endif()
endfunction()

set(openmp_found FALSE)
if(NOT SHOAL_WITH_OPENMP STREQUAL "OFF")
  find_package(OpenMP QUIET COMPONENTS CXX)
  set(openmp_found ${OpenMP_CXX_FOUND})
endif()
shoal_feature(OPENMP "${openmp_found}" "the compiler has no OpenMP")

set(mpi_found FALSE)
if(NOT SHOAL_WITH_MPI STREQUAL "OFF")
  set(MPI_CXX_SKIP_MPICXX TRUE)
  find_package(MPI QUIET COMPONENTS CXX)
  set(mpi_found ${MPI_CXX_FOUND})
endif()
shoal_feature(MPI "${mpi_found}" "no MPI was found (Debian: libopenmpi-dev)")

# The CUDA device and the NCCL backend are not written yet: saying so here keeps `shoal info` true.
foreach(feature CUDA NCCL)
  if(SHOAL_WITH_${feature} STREQUAL "ON")
    message(FATAL_ERROR "SHOAL_WITH_${feature}=ON, but ${feature} is not part of this release")
  endif()
  set(SHOAL_HAVE_${feature} 0)
  set(SHOAL_WHY_${feature} "not part of this release")
endforeach()

set(python_found FALSE)
set(python_why "no Python development files or no pybind11 (Debian: python3-dev pybind11-dev)")
if(NOT SHOAL_WITH_PYTHON STREQUAL "OFF")
  # The system's Python, which has the system's numpy and pybind11, rather than the first one in PATH; an active
  # virtual environment, a wheel build or a choice of the user's (-DPython_EXECUTABLE=...) goes first.
  if(NOT DEFINED Python_EXECUTABLE AND NOT DEFINED Python_ROOT_DIR AND NOT DEFINED ENV{VIRTUAL_ENV}
     AND NOT SKBUILD AND EXISTS /usr/bin/python3)
    set(Python_EXECUTABLE /usr/bin/python3)
  endif()
  set(PYBIND11_FINDPYTHON ON)
  find_package(Python QUIET COMPONENTS Interpreter Development.Module)
  if(Python_FOUND)
    find_package(pybind11 QUIET)
    set(python_found ${pybind11_FOUND})
  endif()
endif()
shoal_feature(PYTHON "${python_found}" "${python_why}")
set(SHOAL_BUILD_PYTHON ${SHOAL_HAVE_PYTHON})

configure_file(${PROJECT_SOURCE_DIR}/cmake/build_config.hpp.in
               ${PROJECT_BINARY_DIR}/generated/shoal_build_config.hpp)
