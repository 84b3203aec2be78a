#include "cli/report.hpp"

#include <chrono>
#include <cstdio>
#include <thread>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"
#include "shoal/train/agree.hpp"

namespace shoal::cli {
namespace {

void print(const std::string& text) {
  const std::string line = "shoal: " + text + "\n";  // one write, so that lines of several ranks do not mix
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

int code_of(const std::exception& e) {
  const bool input = dynamic_cast<const ConfigError*>(&e) || dynamic_cast<const DataError*>(&e);
  return input ? exit_input : exit_failure;
}

int launched_rank() noexcept {
  try {
    return launch_info().rank;
  } catch (const std::exception&) {
    return 0;
  }
}

// Long enough for rank 0 to have printed and for the launcher to have ended us.
void let_rank_0_speak(int rank) {
  if (rank != 0) std::this_thread::sleep_for(std::chrono::seconds(2));
}

}  // namespace

int report_usage(const std::string& text) {
  print(text + " (shoal --help lists the commands)");
  return exit_input;
}

int report(const std::exception& e, Communicator* world) {
  const int code = code_of(e);
  if (!world || world->size() == 1) {
    let_rank_0_speak(world ? 0 : launched_rank());
    print(e.what());
  } else if (dynamic_cast<const train::Agreed*>(&e)) {
    if (world->rank() == 0) print(e.what());
    try {
      world->barrier();  // nobody ends, and so ends the job, before rank 0 has printed
    } catch (const std::exception&) {
      // The line is out; how the others end no longer matters.
    }
  } else {
    end_failed_job(std::string("shoal: ") + e.what());  // under mpi it does not return
  }
  return code;
}

}  // namespace shoal::cli
