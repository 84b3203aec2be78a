// Ranks as processes of this host, forked by the test itself.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shoal/comm/communicator.hpp"

namespace shoal::test {

// How a rank's process ended, and what it reported.
struct Outcome {
  int exit_code = -1;  // -1: it was killed
  int signal = 0;
  std::string report;
};

using Body = std::function<void(const std::shared_ptr<Communicator>&)>;

// Runs body on `ranks` processes with a communicator of all of them. A process exits with 0, or with 1 when a gtest
// assertion failed in it or an exception left the body (which it reports). Processes that are stopped are killed once
// the others have ended. The test's own process must not have started threads.
// apart: as if their process numbers meant nothing to each other (containers), so that segments need names.
std::vector<Outcome> run_processes(int ranks, const Body& body, const CommOptions& options = {},
                                   bool apart = false);
// In a body: what this rank's Outcome says.
void report(const std::string& text);

// Expects every process to have exited with 0.
void expect_success(const std::vector<Outcome>& outcomes);

// Memory cut from one block: what asks for memory in another order on each rank gets from it what it would not get from
// a communicator's allocator. Falls back to `otherwise` where it is full.
std::shared_ptr<Allocator> make_arena(void* block, std::int64_t bytes, std::shared_ptr<Allocator> otherwise);

}  // namespace shoal::test
