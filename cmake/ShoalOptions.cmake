# Options, compiler flags and sanitizers.
option(SHOAL_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(SHOAL_BUILD_BENCHMARKS "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(SHOAL_BUILD_CLI "Build the shoal command" ON)
# AUTO: used where it is found; ON: an error where it is not; OFF: not used.
foreach(feature CUDA NCCL MPI PYTHON OPENMP)
  set(SHOAL_WITH_${feature} AUTO CACHE STRING "Use ${feature}: AUTO, ON or OFF")
  set_property(CACHE SHOAL_WITH_${feature} PROPERTY STRINGS AUTO ON OFF)
endforeach()
set(SHOAL_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them: address,undefined or thread")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET default)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  find_program(SHOAL_CCACHE ccache)
  if(SHOAL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${SHOAL_CCACHE})
  endif()
endif()

add_library(shoal_flags INTERFACE)
# -ffp-contract=off: which products are fused is decided in the source, never by the compiler
# (docs/numerics.md); no -ffast-math and no -march=native anywhere.
target_compile_options(shoal_flags INTERFACE -Wall -Wextra -ffp-contract=off -fno-math-errno)
if(SHOAL_SANITIZE)
  target_compile_options(shoal_flags INTERFACE -fsanitize=${SHOAL_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(shoal_flags INTERFACE -fsanitize=${SHOAL_SANITIZE})
endif()
