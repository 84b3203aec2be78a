// The ends of a program that trains: joining the world, and one message and an exit status where it fails.
#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "shoal/comm/bootstrap.hpp"

namespace shoal::train {

inline constexpr int exit_failure = 1;  // it went wrong while running
inline constexpr int exit_input = 2;    // the user's job, arguments or data do not make sense

// For main(): joins the world, runs body(world) and returns the exit status, 0 or that of report_failure.
int run_program(const std::string& name, const std::function<void(std::shared_ptr<Communicator>)>& body,
                const WorldOptions& options = {});

// Writes "name: what went wrong" to standard error and returns the exit status. world: the communicator, where there is
// one already.
//  - An error on which all ranks agree (shoal/train/agree.hpp) is written by rank 0 alone.
//  - Any other is written by the rank that failed, which also ends the job (shoal/comm/bootstrap.hpp).
//  - Of input that all ranks may refuse alike before they agree, rank 0 says so at once, and another rank only if it is
//    still alive after a moment.
int report_failure(const std::string& name, const std::exception& e, Communicator* world);

// Long enough for rank 0 to have spoken and for the launcher to have ended this rank; on rank 0, nothing.
void let_rank_0_speak(int rank);

// The rank that the launcher gave this process; 0 where it gave none, or nonsense.
int launched_rank() noexcept;

}  // namespace shoal::train
