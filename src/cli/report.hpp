// How a failed command ends: one line on standard error from the rank that failed, and an exit code.
#pragma once
#include <exception>
#include <string>

#include "shoal/comm/communicator.hpp"

namespace shoal::cli {

inline constexpr int exit_failure = 1;  // it went wrong while running
inline constexpr int exit_input = 2;    // the user's job, arguments or data do not make sense

int report_usage(const std::string& text);

// Prints e and returns the exit code. world: the communicator, where there is one already.
//  - An error on which all ranks agree is printed by rank 0 alone.
//  - Any other is printed by the rank that failed, which also ends the job (shoal/comm/bootstrap.hpp).
//  - Before there is a world, all ranks have the same to say: rank 0 says it at once, and another rank only if it is
//    still alive after a moment.
int report(const std::exception& e, Communicator* world);

}  // namespace shoal::cli
