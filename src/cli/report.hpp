// How a failed command ends: one line on standard error, from one rank, and an exit code (shoal/train/program.hpp).
#pragma once
#include <exception>
#include <string>

#include "shoal/comm/communicator.hpp"
#include "shoal/train/program.hpp"

namespace shoal::cli {

using train::exit_failure;
using train::exit_input;

int report_usage(const std::string& text);
int report(const std::exception& e, Communicator* world);

}  // namespace shoal::cli
