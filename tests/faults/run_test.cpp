// `shoal run`: ranks that meet, ranks that fail, and what is left of them afterwards: nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "support/command.hpp"
#include "support/temp_dir.hpp"

#ifdef SHOAL_CLI
namespace shoal {
namespace {

using test::Result;

class Run : public testing::Test {
 protected:
  Result run(const std::string& arguments, const std::string& before = "") {
    return test::shell(fmt::format("cd {} && {} timeout -s KILL 100 {} run {}", dir_.path().string(), before,
                                   SHOAL_CLI, arguments));
  }
  Result ranks(int n, const std::string& mode, const std::string& options = "") {
    return run(fmt::format("-n {} {} {} {}", n, options, SHOAL_RUN_PROGRAM, mode));
  }
  void expect_refused(const std::string& arguments, const std::string& message) {
    const Result r = run(arguments);
    EXPECT_EQ(r.code, 2) << r.output;
    EXPECT_EQ(r.output.rfind("shoal: ", 0), 0u) << r.output;
    EXPECT_EQ(test::count(r.output, "\n"), 1) << r.output;
    EXPECT_NE(r.output.find(message), std::string::npos)
        << "expected: " << message << "\nfound: " << r.output;
  }
  static std::string last_line(const std::string& text) {
    const std::size_t end = text.find_last_not_of('\n');
    if (end == std::string::npos) return "";
    const std::size_t start = text.rfind('\n', end);
    return text.substr(start + 1, end - start);
  }
  // The process numbers that the ranks wrote, once they have.
  std::vector<int> pids(const std::string& file) {
    for (int i = 0; i < 600; ++i) {
      std::ifstream in(dir_ / (file + ".done"));
      std::vector<int> found;
      for (int pid; in >> pid;) found.push_back(pid);
      if (!found.empty()) return found;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    ADD_FAILURE() << "the ranks did not start";
    return {};
  }
  // Whether all of them are gone, or will be soon.
  static void expect_gone(const std::vector<int>& pids) {
    for (const int pid : pids) {
      int i = 0;
      while (running(pid) && ++i < 600) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      EXPECT_LT(i, 600) << "process " << pid << " is left";
    }
  }
  static bool running(int pid) {
    std::string stat = test::read_file(fmt::format("/proc/{}/stat", pid));
    const std::size_t at = stat.rfind(") ");
    return at != std::string::npos && stat[at + 2] != 'Z' && stat[at + 2] != 'X';
  }
  test::TempDir dir_;
};

TEST_F(Run, RanksMeet) {
  for (const int n : {1, 2, 5}) {
    const Result r = ranks(n, "gather");
    EXPECT_EQ(r.code, 0) << r.output;
    for (int i = 0; i < n; ++i)
      EXPECT_EQ(test::count(r.output, fmt::format("rank {} met {}\n", i, n)), 1) << r.output;
  }
}

TEST_F(Run, Variables) {
  const Result r = run(fmt::format("-n 2 -- {} variables | sort", SHOAL_RUN_PROGRAM),
                       "OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 LOCAL_RANK=7");
  EXPECT_EQ(r.output, "0 2 0 2 - environment\n1 2 1 2 - environment\n");
}

TEST_F(Run, OptionsOfTheProgramAreItsOwn) {
  const Result r = run("-n 1 sh -c 'printf \"%s \" \"$@\"' x -n 5 --tag-output -- --help");
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.output, "-n 5 --tag-output -- --help ");
  EXPECT_EQ(run("-n 2 shoal --version").output, run("-n 2 shoal --version").output);
  EXPECT_EQ(test::count(run("-n 3 shoal --version").output, "shoal "), 1);  // of rank 0
}

TEST_F(Run, Lines) {
  const Result r = ranks(4, "lines");
  std::istringstream in(r.output);
  int whole = 0;
  for (std::string line; std::getline(in, line);)
    if (line.size() == 51 && line.find_first_not_of(line[0]) == std::string::npos) ++whole;
  EXPECT_EQ(whole, 800);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(test::count(r.output, fmt::format("end of {}", i)), 1);
  const Result tagged =
      run(fmt::format("-n 3 --tag-output {} lines | sort | uniq -c | grep -c ' 200 '", SHOAL_RUN_PROGRAM));
  EXPECT_EQ(tagged.output, "3\n");
  const Result one = run("-n 2 --tag-output sh -c 'echo out; echo err >&2'");
  for (const char* line : {"[0] out\n", "[1] out\n", "[0] err\n", "[1] err\n"})
    EXPECT_EQ(test::count(one.output, line), 1);
}

TEST_F(Run, StandardInputIsRank0s) {
  dir_.write("in", "12345");
  const Result r = run(fmt::format("-n 2 {} stdin < in | sort", SHOAL_RUN_PROGRAM));
  EXPECT_EQ(r.output, "rank 0 read 5\nrank 1 read 0\n");
}

TEST_F(Run, ARankThatFailsEndsTheOthersAndSpeaksLast) {
  const Result r = ranks(3, "exit pids");
  EXPECT_EQ(r.code, 3) << r.output;
  EXPECT_NE(r.output.find("shoal run: rank 1 exited with status 3; the other ranks were ended\n"),
            std::string::npos)
      << r.output;
  EXPECT_EQ(last_line(r.output), "rank 1: loss is NaN at step 7");
  expect_gone(pids("pids"));
}

TEST_F(Run, TheRankThatSaidItFailedIsTheCause) {
  const Result r = ranks(3, "blame");
  EXPECT_EQ(r.code, 5) << r.output;
  EXPECT_EQ(last_line(r.output), "rank 1: disk full");
}

TEST_F(Run, ARankThatIsKilled) {
  const Result r = ranks(3, "kill pids");
  EXPECT_EQ(r.code, 128 + SIGKILL) << r.output;
  EXPECT_NE(r.output.find("shoal run: rank 1 was killed by signal 9 (Killed)"), std::string::npos)
      << r.output;
  expect_gone(pids("pids"));
}

TEST_F(Run, ARankThatIsStopped) {
  const Result r = ranks(3, "stop pids");
  EXPECT_EQ(r.code, 6) << r.output;
  expect_gone(pids("pids"));
}

TEST_F(Run, RanksThatIgnoreSigtermAreKilled) {
  const Result r = ranks(3, "deaf pids", "--grace 0.2");
  EXPECT_EQ(r.code, 4) << r.output;
  expect_gone(pids("pids"));
}

TEST_F(Run, SignalsEndAllRanks) {
  for (const auto& [name, number] : {std::pair{"INT", SIGINT}, {"TERM", SIGTERM}, {"HUP", SIGHUP}}) {
    const std::string file = fmt::format("pids-{}", name);
    std::thread sender([&] {
      const auto ranks = pids(file);
      test::shell(fmt::format("kill -{} $(cat {})", name, dir_ / "launcher"));
      expect_gone(ranks);
    });
    const Result r =
        test::shell(fmt::format("cd {} && sh -c 'echo $$ > launcher; exec {} run -n 3 {} hang {}'",
                                dir_.path().string(), SHOAL_CLI, SHOAL_RUN_PROGRAM, file));
    sender.join();
    EXPECT_EQ(r.code, 128 + number) << r.output;
    EXPECT_NE(r.output.find(fmt::format("shoal run: ended by signal {}", number)), std::string::npos)
        << r.output;
  }
}

TEST_F(Run, RanksDieWithTheLauncherAndNothingIsLeft) {
  std::thread sender([&] {
    const auto ranks = pids("pids");
    test::shell(fmt::format("kill -KILL $(cat {})", dir_ / "launcher"));
    expect_gone(ranks);
  });
  const Result r =
      test::shell(fmt::format("cd {} && TMPDIR={} sh -c 'echo $$ > launcher; exec {} run -n 3 {} hang pids'",
                              dir_.path().string(), dir_.path().string(), SHOAL_CLI, SHOAL_RUN_PROGRAM));
  sender.join();
  EXPECT_NE(r.code, 0);
  EXPECT_EQ(dir_.entries(), 2);  // what the test itself wrote
}

TEST_F(Run, Worlds) {
  const Result r = ranks(3, "world");
  EXPECT_EQ(r.code, 0) << r.output;
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(test::count(r.output, fmt::format("local {}: 6\n", i)), 1) << r.output;
  EXPECT_EQ(ranks(1, "world").output, "self 0: 1\n");
}

TEST_F(Run, ARankOfAWorldThatThrows) {
  for (const char* mode : {"world-throw", "world-unwind"}) {
    const Result r = ranks(3, mode);
    EXPECT_EQ(r.code, 1) << r.output;
    EXPECT_EQ(last_line(r.output), "rank 1: loss is NaN at step 7");
    EXPECT_EQ(test::count(r.output, "loss is NaN"), 2) << r.output;  // by itself, and once more at the end
  }
}

TEST_F(Run, ARankOfAWorldThatIsKilled) {
  const Result r = ranks(3, "world-kill");
  EXPECT_EQ(r.code, 128 + SIGKILL) << r.output;
  EXPECT_NE(r.output.find("shoal run: rank 1 was killed by signal 9 (Killed)"), std::string::npos)
      << r.output;
}

// The ranks of another launcher, over TCP.
TEST_F(Run, WorldsOverAPort) {
  const auto start = [&](const std::string& mode, const std::string& more) {
    return test::shell(fmt::format(
        "export MASTER_ADDR=localhost MASTER_PORT=$((20000 + $$ % 10000)) WORLD_SIZE=2 {2}\n"
        "(RANK=0 timeout 60 {0} {1}; echo status $?) & (RANK=1 timeout 60 {0} {1}; echo status $?); wait",
        SHOAL_RUN_PROGRAM, mode, more));
  };
  for (const char* token : {"", "SHOAL_TOKEN=0123456789abcdef"}) {
    const Result r = start("world", token);
    for (const char* line : {"local 0: 3\n", "local 1: 3\n"})
      EXPECT_EQ(test::count(r.output, line), 1) << r.output;
    EXPECT_EQ(test::count(r.output, "status 0"), 2) << r.output;
  }
  const Result r = start("world-throw", "");
  EXPECT_EQ(test::count(r.output, "status 1"), 2) << r.output;
  EXPECT_NE(r.output.find("rank 1: loss is NaN at step 7\n"), std::string::npos) << r.output;
  EXPECT_NE(r.output.find("aborted by rank 1: loss is NaN at step 7"), std::string::npos) << r.output;
}

TEST_F(Run, Training) {
  dir_.write("text.txt", std::string(3000, 'x') + std::string(3000, 'y'));
  const std::string job =
      "train --quiet data.train=text.txt model.layers=1 model.hidden=32 model.heads=2 model.seq=16 "
      "train.steps=3 "
      "train.global_batch=4 train.threads=1 reproducible.on=true reproducible.data=4 run.dir=";
  const Result two = run("-n 2 shoal " + job + "two");
  EXPECT_EQ(two.code, 0) << two.output;
  EXPECT_EQ(run("-n 1 shoal " + job + "one").code, 0);
  const Result same = test::shell(fmt::format("cd {} && {} diff one two", dir_.path().string(), SHOAL_CLI));
  EXPECT_EQ(same.code, 0) << same.output;
  const Result bad = run("-n 2 shoal " + job + "bad train.stepz=1");
  EXPECT_EQ(bad.code, 2) << bad.output;
  EXPECT_NE(last_line(bad.output).find("unknown key train.stepz"), std::string::npos) << bad.output;
}

// Processes that a rank started are in its group.
TEST_F(Run, ChildrenOfRanksEndToo) {
  dir_.write(
      "rank.sh",
      "sleep 1000 & echo $! > child.$RANK\n[ $RANK = 0 ] && { while [ ! -s child.1 ]; do sleep 0.05; done; "
      "exit 7; }\nwait\n");
  const Result r = run("-n 2 sh rank.sh");
  EXPECT_EQ(r.code, 7) << r.output;
  for (const char* file : {"child.0", "child.1"}) expect_gone({std::stoi(test::read_file(dir_ / file))});
}

TEST_F(Run, WhatMakesNoSenseIsRefused) {
  expect_refused("-n 0 true", "-n 0: expected 1 to 1024 ranks");
  expect_refused("-n 2000 true", "-n 2000: expected 1 to 1024 ranks");
  expect_refused("-n -1 true", "-n -1: expected 1 to 1024 ranks");
  expect_refused("-n two true", "two");
  expect_refused("true", "--ranks is required");
  expect_refused("-n 2", "no program: shoal run -n N PROGRAM");
  expect_refused("-n 2 --nonsense true", "unknown option --nonsense");
  expect_refused("-n 2 --grace -1 true", "--grace -1: expected seconds");
  expect_refused("-n 2 no-such-program", "program no-such-program: no executable of that name in PATH");
  expect_refused("-n 2 ./no-such-program", "program ./no-such-program: No such file or directory");
  expect_refused("-n 2 .", "no executable of that name in PATH");
  expect_refused("-n 2 ./", "program ./: is a directory");
  dir_.write("script.py", "print(1)\n");
  expect_refused("-n 2 ./script.py", "program ./script.py: is not executable (chmod +x");
  ::chmod((dir_ / "script.py").c_str(), 0700);
  expect_refused(
      "-n 2 ./script.py",
      "./script.py cannot be executed: it is neither a program nor a script whose first line is #!");
  dir_.write("bad", "#!/no/such/interpreter\n");
  ::chmod((dir_ / "bad").c_str(), 0700);
  expect_refused("-n 2 ./bad", "./bad cannot be executed: No such file or directory");
  const Result r = run("-n 2 true", "RANK=1 WORLD_SIZE=2");
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.output.find("this is rank 1 of 2 already (launched by environment)"), std::string::npos)
      << r.output;
}

}  // namespace
}  // namespace shoal
#endif
