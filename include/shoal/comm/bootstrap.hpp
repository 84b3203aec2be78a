// How a process finds the other ranks.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shoal/comm/communicator.hpp"

namespace shoal {

// What the launcher said: OMPI_*, PMI_*, PMIX_*, SLURM_*, or RANK / WORLD_SIZE / LOCAL_RANK.
struct LaunchInfo {
  int rank = 0, world_size = 1, local_rank = 0, local_size = 1;
  std::string launcher;  // "none", "openmpi", "mpich", "slurm", "environment"
};
// Throws ConfigError naming the variables that are missing or contradict each other (WORLD_SIZE=2 without
// RANK).
LaunchInfo launch_info();

struct WorldOptions {
  std::string backend = "auto";  // auto | self | local | mpi (SHOAL_COMM is used where this is auto)
  CommOptions comm;
};
// The communicator of all ranks. "auto" under an MPI launcher is local where all ranks are on one host, which MPI then only
// brings together, and mpi otherwise; self where nothing launched us. More
// than one rank announced and no way to meet them is a ConfigError, never a silent world of one.
std::shared_ptr<Communicator> make_world(const WorldOptions& options = {});

std::shared_ptr<Communicator> make_self(const CommOptions& options = {});

// The ranks of an MPI communicator of the program's own, given as the integer of MPI_Comm_c2f (mpi4py: py2f), which
// stays the program's. Collective over it; the first communicator that a process makes over MPI is collective over
// MPI_COMM_WORLD. Throws ConfigError where MPI is not there or not started, and for a communicator that is null or has two
// groups.
std::shared_ptr<Communicator> adopt_mpi(int communicator, const CommOptions& options = {});

// Runs body(communicator) on `ranks` (1 to 1024) threads of this process, joined before it returns. When a rank throws,
// the others' collectives are aborted and the first rank's own exception is rethrown. Each rank starts with
// its share of the caller's num_threads().
void run_local(int ranks, const std::function<void(std::shared_ptr<Communicator>)>& body,
               const CommOptions& options = {});

// For a program's main function, when an exception has reached it: writes `message` to standard error and
// returns 1, the exit status. Under mpi it first breaks every communicator of the job on all ranks, writes
// this rank's message, and ends the other ranks; then it does not return. A rank whose exception only reports
// another rank's failure writes nothing and waits for that one to end the job, so that the message shown last
// is the cause.
int end_failed_job(const std::string& message);

// Which backends this build and this machine have, and why not.
struct BackendInfo {
  std::string name;
  bool available;
  std::string detail;
};
std::vector<BackendInfo> comm_backends();

}  // namespace shoal
