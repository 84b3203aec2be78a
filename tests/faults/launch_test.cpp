// What the launcher's variables say, and what is refused.
#include <gtest/gtest.h>

#include <cstdlib>
#include <initializer_list>
#include <utility>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"
#include "support/expect_message.hpp"

namespace shoal {
namespace {

// Exactly these launch variables, until the end of the test.
class Variables : public testing::Test {
 protected:
  void SetUp() override { only({}); }
  void TearDown() override { only({}); }
  static void only(std::initializer_list<std::pair<const char*, const char*>> set) {
    for (const char* name : {"OMPI_COMM_WORLD_RANK",
                             "OMPI_COMM_WORLD_SIZE",
                             "OMPI_COMM_WORLD_LOCAL_RANK",
                             "OMPI_COMM_WORLD_LOCAL_SIZE",
                             "PMI_RANK",
                             "PMI_SIZE",
                             "MPI_LOCALRANKID",
                             "MPI_LOCALNRANKS",
                             "PMIX_RANK",
                             "SLURM_PROCID",
                             "SLURM_NTASKS",
                             "SLURM_LOCALID",
                             "SLURM_STEP_ID",
                             "SLURM_STEP_NUM_TASKS",
                             "RANK",
                             "WORLD_SIZE",
                             "LOCAL_RANK",
                             "LOCAL_WORLD_SIZE",
                             "SHOAL_COMM",
                             "MASTER_ADDR",
                             "MASTER_PORT",
                             "SHOAL_STORE",
                             "SHOAL_TOKEN"})
      ::unsetenv(name);
    for (const auto& [name, value] : set) ::setenv(name, value, 1);
  }
};

TEST_F(Variables, NothingLaunchedIsAWorldOfOne) {
  EXPECT_EQ(launch_info().launcher, "none");
  const auto world = make_world();
  EXPECT_EQ(world->backend(), "self");
  EXPECT_EQ(world->size(), 1);
}

TEST_F(Variables, LaunchersAreRead) {
  only({{"OMPI_COMM_WORLD_RANK", "3"},
        {"OMPI_COMM_WORLD_SIZE", "4"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
        {"PMIX_RANK", "3"}});
  LaunchInfo info = launch_info();
  EXPECT_EQ(info.launcher, "openmpi");
  EXPECT_EQ(info.rank, 3);
  EXPECT_EQ(info.world_size, 4);
  EXPECT_EQ(info.local_rank, 1);
  EXPECT_EQ(info.local_size, 2);
  only({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
  EXPECT_EQ(launch_info().launcher, "mpich");
  only({{"PMIX_RANK", "1"},
        {"SLURM_PROCID", "1"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_LOCALID", "1"},
        {"SLURM_STEP_ID", "0"}});
  info = launch_info();
  EXPECT_EQ(info.launcher, "slurm");
  EXPECT_EQ(info.local_rank, 1);
  only({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}});
  EXPECT_EQ(launch_info().launcher, "environment");
}

// No srun has started these: an allocation's shell, a batch script, a step of one task.
TEST_F(Variables, AnAllocationIsNoLaunch) {
  only({{"SLURM_NTASKS", "8"}});
  EXPECT_EQ(make_world()->size(), 1);
  only({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}});
  EXPECT_EQ(make_world()->size(), 1);
  only({{"SLURM_NTASKS", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}});
  EXPECT_EQ(make_world()->size(), 1);
}

TEST_F(Variables, ManyAnnouncedAndNoWayToMeetIsRefused) {
  only({{"WORLD_SIZE", "2"}, {"RANK", "0"}});
  EXPECT_MESSAGE(make_world(), ConfigError,
                 "WORLD_SIZE=2 announces 2 ranks (this is rank 0), but there is no way to meet");
  EXPECT_MESSAGE(make_world({"mpi", CommOptions()}), ConfigError, "WORLD_SIZE=2 announces 2 ranks");
  EXPECT_MESSAGE(make_world({"self", CommOptions()}), ConfigError, "backend self has one");
  only({{"WORLD_SIZE", "2"}, {"RANK", "0"}, {"MASTER_ADDR", "localhost"}});
  EXPECT_MESSAGE(make_world(), ConfigError, "but there is no way to meet the others: MASTER_PORT is missing");
  only({{"WORLD_SIZE", "2"}, {"RANK", "0"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "70000"}});
  try {
    make_world();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ConfigError& e) {  // and no word of a place to meet, which is given
    EXPECT_STREQ(e.what(), "MASTER_PORT=70000: expected 1 to 65535");
  }
  only({{"WORLD_SIZE", "1"}});
  EXPECT_EQ(make_world()->size(), 1);
}

TEST_F(Variables, MissingOnesAreNamed) {
  only({{"WORLD_SIZE", "2"}});
  EXPECT_MESSAGE(make_world(), ConfigError, "WORLD_SIZE=2 is set, but RANK is missing");
  only({{"RANK", "1"}});
  EXPECT_MESSAGE(make_world(), ConfigError, "RANK=1 is set, but WORLD_SIZE is missing");
  only({{"OMPI_COMM_WORLD_SIZE", "2"}});
  EXPECT_MESSAGE(make_world(), ConfigError, "OMPI_COMM_WORLD_RANK is missing");
  only({{"PMI_RANK", "0"}});
  EXPECT_MESSAGE(make_world(), ConfigError, "PMI_SIZE is missing");
  only({{"PMIX_RANK", "2"}});
  EXPECT_MESSAGE(make_world(), ConfigError, "OMPI_COMM_WORLD_SIZE or SLURM_NTASKS is missing");
  only({{"SLURM_PROCID", "1"}});
  EXPECT_MESSAGE(make_world(), ConfigError, "SLURM_NTASKS is missing");
}

TEST_F(Variables, ContradictionsAreRefused) {
  only({{"RANK", "2"}, {"WORLD_SIZE", "2"}});
  EXPECT_MESSAGE(launch_info(), ConfigError, "RANK=2 and WORLD_SIZE=2 contradict");
  only({{"RANK", "one"}, {"WORLD_SIZE", "2"}});
  EXPECT_MESSAGE(launch_info(), ConfigError, "RANK=one: expected a whole number");
  only({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"RANK", "0"}, {"WORLD_SIZE", "4"}});
  EXPECT_MESSAGE(launch_info(), ConfigError,
                 "openmpi says rank 0 of 2, but RANK and WORLD_SIZE say rank 0 of 4");
}

TEST_F(Variables, Backends) {
  EXPECT_MESSAGE(make_world({"gloo", CommOptions()}), ConfigError,
                 "backend gloo: expected auto, self, local or mpi");
  EXPECT_MESSAGE(make_world({"local", CommOptions()}), ConfigError, "run_local");
  only({{"SHOAL_COMM", "carrier-pigeon"}});
  EXPECT_MESSAGE(make_world(), ConfigError, "carrier-pigeon");
  only({});
  run_local(2, [](const auto& w) { EXPECT_EQ(make_world(), w); });
  const auto backends = comm_backends();
  ASSERT_EQ(backends.size(), 3u);
  EXPECT_EQ(backends[2].name, "mpi");
  EXPECT_FALSE(backends[2].detail.empty());
}

}  // namespace
}  // namespace shoal
