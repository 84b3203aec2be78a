// A rank for the tests of `shoal run`: run_program MODE [FILE].
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/comm/store.hpp"

namespace {

void line(std::FILE* to, const std::string& text) {
  std::fprintf(to, "%s\n", text.c_str());
  std::fflush(to);
}

[[noreturn]] void hang() {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1000));
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "-";
}

// A world over the Store; in "world-throw" rank 1 fails between two collectives, in "world-unwind" its exception takes the
// communicator with it, in "world-kill" it is killed there.
int world(const std::string& mode) {
  std::shared_ptr<shoal::Communicator> kept;
  try {
    const auto comm = shoal::make_world();
    if (mode != "world-unwind") kept = comm;
    float x = static_cast<float>(comm->rank() + 1);
    const shoal::Tensor t = shoal::Tensor::from_blob(&x, {1}, shoal::DType::f32, shoal::Device{});
    comm->all_reduce(t);
    if (mode == "world" || comm->rank() != 1)
      line(stdout, fmt::format("{} {}: {}", comm->backend(), comm->rank(), x));
    comm->barrier();
    if ((mode == "world-throw" || mode == "world-unwind") && comm->rank() == 1)
      throw std::runtime_error("loss is NaN at step 7");
    if (mode == "world-kill" && comm->rank() == 1) std::raise(SIGKILL);
    comm->all_reduce(t);
    return 0;
  } catch (const std::exception& e) {
    return shoal::end_failed_job(e.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const shoal::LaunchInfo launch = shoal::launch_info();
  const int rank = launch.rank;
  if (mode == "variables") {
    line(stdout,
         fmt::format("{} {} {} {} {} {}", variable("RANK"), variable("WORLD_SIZE"), variable("LOCAL_RANK"),
                     variable("LOCAL_WORLD_SIZE"), variable("OMPI_COMM_WORLD_SIZE"), launch.launcher));
    return 0;
  }
  if (mode == "stdin") {
    int c, n = 0;
    while ((c = std::getchar()) != EOF) ++n;
    line(stdout, fmt::format("rank {} read {}", rank, n));
    return 0;
  }
  if (mode == "lines") {  // long ones, in pieces; and one without an end
    for (int i = 0; i < 200; ++i) {
      std::printf("%d", rank);
      std::fflush(stdout);
      for (int j = 0; j < 50; ++j) std::printf("%d", rank);
      std::printf("\n");
    }
    std::printf("end of %d", rank);
    return 0;
  }
  if (mode.rfind("world", 0) == 0) return world(mode);
  if (mode == "deaf") std::signal(SIGTERM, SIG_IGN);
  const auto store = shoal::Store::connect(shoal::store_options(launch, std::chrono::duration<double>(60)));
  const auto all = store->all_gather("pids", std::to_string(::getpid()));
  if (argc > 2 && rank == 0) {
    std::ofstream file(argv[2]);
    for (const std::string& pid : all) file << pid << "\n";
    file.close();
    std::rename(argv[2], (std::string(argv[2]) + ".done").c_str());  // whole
  }
  store->all_gather("written", "");
  if (mode == "gather") {
    line(stdout, fmt::format("rank {} met {}", rank, all.size()));
    return 0;
  }
  if (mode == "hang") hang();
  const bool the_one = rank == 1;
  if (mode == "exit") {  // the last rank fails, with lines of others after its own
    if (!the_one) hang();
    line(stderr, "rank 1: loss is NaN at step 7");
    return 3;
  }
  if (mode == "deaf") {
    if (!the_one) hang();
    return 4;
  }
  if (mode ==
      "blame") {  // rank 1 is the cause, and takes its time to end; the others end first, with another status
    if (the_one) {
      line(stderr, "rank 1: disk full");
      store->fail("rank 1: disk full");
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      return 5;
    }
    try {
      store->get("never");
    } catch (const std::exception& e) {
      line(stderr, e.what());
    }
    return 1;
  }
  if (mode == "kill" || mode == "stop") {
    if (the_one) std::raise(mode == "kill" ? SIGKILL : SIGSTOP);
    if (mode == "stop" && rank == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      return 6;
    }
    try {
      store->get("never");
    } catch (const std::exception& e) {
      line(stderr, e.what());
    }
    return 1;
  }
  return 9;
}
