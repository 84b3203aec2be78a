#include "shoal/train/program.hpp"

#include <chrono>
#include <cstdio>
#include <thread>

#include "shoal/core/error.hpp"
#include "shoal/train/agree.hpp"

namespace shoal::train {
namespace {

void print(const std::string& text) {
  const std::string line = text + "\n";  // one write, so that lines of several ranks do not mix
  std::fflush(stdout);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

bool is_input(const std::exception& e) {
  return dynamic_cast<const ConfigError*>(&e) || dynamic_cast<const DataError*>(&e);
}

}  // namespace

int launched_rank() noexcept {
  try {
    return launch_info().rank;
  } catch (const std::exception&) {
    return 0;
  }
}

void let_rank_0_speak(int rank) {
  if (rank != 0) std::this_thread::sleep_for(std::chrono::seconds(2));
}

int report_failure(const std::string& name, const std::exception& e, Communicator* world) {
  const int code = is_input(e) ? exit_input : exit_failure;
  const std::string text = name + ": " + e.what();
  if (!world || world->size() == 1) {
    let_rank_0_speak(world ? 0 : launched_rank());
    print(text);
  } else if (dynamic_cast<const Agreed*>(&e)) {
    if (world->rank() == 0) print(text);
    try {
      world->barrier();  // nobody ends, and so ends the job, before rank 0 has printed
    } catch (const std::exception&) {
      // The line is out; how the others end no longer matters.
    }
  } else {
    if (is_input(e)) let_rank_0_speak(world->rank());
    end_failed_job(text);  // under mpi it does not return
  }
  return code;
}

int run_program(const std::string& name, const std::function<void(std::shared_ptr<Communicator>)>& body,
                const WorldOptions& options) {
  std::shared_ptr<Communicator> world;
  try {
    world = make_world(options);
    body(world);
  } catch (const std::exception& e) {
    return report_failure(name, e, world.get());
  }
  return 0;
}

}  // namespace shoal::train
