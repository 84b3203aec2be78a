// The contract on the backend that SHOAL_COMM names, mpi if none, started by mpirun: every rank runs every check, and
// reports by itself. "serialized" or "single" as an argument: the program has started MPI before, with that level of
// threads, and gives a communicator of its own whose ranks run backwards.
#include <mpi.h>

#include <string>

#include "contract/contract.hpp"
#include "contract/values.hpp"
#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/env.hpp"

namespace shoal::contract {
namespace {

std::string level;

std::string backend() { return env::comm_backend().value_or("mpi"); }

World make() {
  if (level.empty()) return make_world({.backend = backend(), .comm = {}});
  int given = 0, rank = 0;
  MPI_Init_thread(nullptr, nullptr, level == "single" ? MPI_THREAD_SINGLE : MPI_THREAD_SERIALIZED, &given);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm mine = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &mine);
  const World world = adopt_mpi(static_cast<int>(MPI_Comm_c2f(mine)));
  EXPECT_EQ(world->rank(), world->size() - 1 - rank);
  MPI_Comm_free(&mine);
  return world;
}

World& world() {
  static World w = make();
  return w;
}

void on_mpi(int, const Body& body) {
  // auto: on several hosts (tests/hosts).
  ASSERT_EQ(world()->backend(), backend() == "auto" ? "local+mpi" : backend());
  ASSERT_EQ(world()->size(), launch_info().world_size);
  every_big() = level.empty();
  body(world());
}

SHOAL_CONTRACT(Mpi, on_mpi, {0});

}  // namespace
}  // namespace shoal::contract

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) shoal::contract::level = argv[1];
  const int result = RUN_ALL_TESTS();
  if (argc > 1) {  // whoever started MPI ends it
    shoal::contract::world().reset();
    MPI_Finalize();
  }
  return result;
}
