// Files written whole or not at all, and what killed writers leave.
#include "shoal/core/file.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "shoal/core/error.hpp"
#include "support/temp_dir.hpp"

namespace shoal {
namespace {

TEST(AtomicFile, RemovesWhatAKilledWriterLeft) {
  test::TempDir dir;
  const std::string path = dir / "weights";
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    AtomicFile file(path, raise<DataError>);
    file.append("half", 4);
    static_cast<void>(!::write(ready[1], "x", 1));
    ::pause();
  }
  char c;
  ASSERT_EQ(::read(ready[0], &c, 1), 1);
  remove_stale_temporaries(path);
  EXPECT_EQ(dir.entries(), 1) << "its writer lives";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(dir.entries(), 1);
  dir.write("weights.tmp.txt", "the user's");
  AtomicFile file(path, raise<DataError>);
  file.append("whole", 5);
  file.commit();
  EXPECT_EQ(dir.entries(), 2);
  EXPECT_EQ(test::read_file(path), "whole");
  EXPECT_EQ(test::read_file(dir / "weights.tmp.txt"), "the user's");
}

TEST(AtomicFile, TwoOfOneProcessDoNotDisturbEachOther) {
  test::TempDir dir;
  AtomicFile a(dir / "f", raise<DataError>), b(dir / "f", raise<DataError>);
  a.append("a", 1);
  b.append("b", 1);
  b.commit();
  a.commit();
  EXPECT_EQ(test::read_file(dir / "f"), "a");
}

}  // namespace
}  // namespace shoal
