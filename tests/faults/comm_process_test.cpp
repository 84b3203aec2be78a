// What happens to the other ranks when one is killed, stopped, late, or does something else: ranks as processes.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "shoal/core/error.hpp"
#include "support/processes.hpp"

namespace shoal {
namespace {

using World = std::shared_ptr<Communicator>;
using test::report;
using test::run_processes;

Tensor zeros(std::int64_t n, DType dtype = DType::f32) {
  const Tensor t = Tensor::empty({n}, dtype, default_allocator({}));
  std::memset(t.data(), 0, t.nbytes());
  return t;
}

CommOptions seconds(double s) { return {.timeout = std::chrono::duration<double>(s)}; }

// Reports the message with which body fails; another class, or nothing thrown, is reported as such.
template <class Exception, class F>
void expect_throw(const F& body) {
  try {
    body();
    report("nothing was thrown");
  } catch (const Exception& e) {
    report(e.what());
  } catch (const std::exception& e) {
    report(std::string("another class: ") + e.what());
  }
}

// The reports of the ranks that ended by themselves, which must be those but `gone`.
std::set<std::string> reports(const std::vector<test::Outcome>& outcomes, int gone = -1) {
  std::set<std::string> texts;
  for (int r = 0; r < static_cast<int>(outcomes.size()); ++r) {
    if (r == gone) continue;
    EXPECT_EQ(outcomes[r].exit_code, 0) << "rank " << r << ": " << outcomes[r].report;
    texts.insert(outcomes[r].report);
  }
  return texts;
}

void expect_one_with(const std::set<std::string>& texts, const std::vector<std::string>& parts) {
  ASSERT_EQ(texts.size(), 1u) << testing::PrintToString(texts);
  for (const std::string& part : parts)
    EXPECT_NE(texts.begin()->find(part), std::string::npos) << *texts.begin();
}

int files_left() {
  int count = 0;
  for (const auto& f : std::filesystem::directory_iterator("/dev/shm"))
    count += f.path().filename().string().starts_with("shoal-");
  return count;
}

TEST(ProcessFaults, AKilledRankIsNoticedAtOnceAndLeavesNothing) {
  const int before = files_left();
  for (const bool shared : {true, false}) {
    const auto outcomes = run_processes(3, [&](const World& w) {
      const Tensor t = shared ? Tensor::empty({500000}, DType::f32, w->allocator()) : zeros(500000);
      w->all_reduce(t);
      if (w->rank() == 1) ::kill(::getpid(), SIGKILL);
      expect_throw<CommError>([&] {
        for (int k = 0; k < 3; ++k) w->all_reduce(t);  // the deadline is minutes away
      });
    });
    EXPECT_EQ(outcomes[1].signal, SIGKILL);
    expect_one_with(reports(outcomes, 1),
                    {"communicator world: all_reduce of 500000 f32 (sum) (operation 1): rank 1 (process ",
                     ") has ended"});
  }
  EXPECT_EQ(files_left(), before);
}

TEST(ProcessFaults, AKilledRankEndsMessagesAndSplits) {
  const auto outcomes = run_processes(3, [&](const World& w) {
    const World part = w->split(0, -w->rank());
    part->barrier();
    if (w->rank() == 1) ::kill(::getpid(), SIGKILL);
    if (w->rank() == 0)
      expect_throw<CommError>([&] { w->recv(zeros(4), 1); });
    else
      expect_throw<CommError>([&] { part->barrier(); });
  });
  EXPECT_NE(outcomes[0].report.find("has ended"), std::string::npos) << outcomes[0].report;
  EXPECT_NE(outcomes[2].report.find("has ended"), std::string::npos) << outcomes[2].report;
}

TEST(ProcessFaults, AStoppedRankIsNamedWithWhereItWas) {
  const auto outcomes = run_processes(
      3,
      [&](const World& w) {
        w->broadcast(zeros(7), 2);
        if (w->rank() == 2) ::raise(SIGSTOP);
        expect_throw<TimeoutError>([&] { w->all_reduce(zeros(3)); });
      },
      seconds(1));
  EXPECT_EQ(outcomes[2].signal, SIGKILL);  // by the test, in the end
  expect_one_with(
      reports(outcomes, 2),
      {"communicator world: all_reduce of 3 f32 (sum) (operation 1): rank 2 had not arrived after 1 s "
       "(rank 2: after broadcast of 7 f32 from rank 2 (operation 0))"});
}

TEST(ProcessFaults, ALateRankFailsTooWithTheSameMessage) {
  const auto outcomes = run_processes(
      4,
      [&](const World& w) {
        if (w->rank() == 3) std::this_thread::sleep_for(std::chrono::milliseconds(2000));
        expect_throw<TimeoutError>([&] { w->barrier(); });
      },
      seconds(0.5));
  expect_one_with(reports(outcomes),
                  {"rank 3 had not arrived after 0.5 s (rank 3: before its first operation)"});
}

TEST(ProcessFaults, ARankThatThrowsEndsTheOthersWait) {
  const auto outcomes = run_processes(3, [&](const World& w) {
    w->barrier();
    if (w->rank() == 1) throw TrainError("loss is NaN at step 7");
    expect_throw<CommError>([&] { w->all_reduce(zeros(100)); });
  });
  EXPECT_EQ(outcomes[1].exit_code, 1);
  EXPECT_EQ(outcomes[1].report, "loss is NaN at step 7");
  expect_one_with(reports(outcomes, 1), {"all_reduce of 100 f32 (sum) (operation 1): rank 1 "});
}

TEST(ProcessFaults, DifferentOperationsAreToldAlike) {
  expect_one_with(
      reports(run_processes(3,
                            [](const World& w) {
                              expect_throw<CommError>(
                                  [&] { w->all_reduce(zeros(w->rank() == 1 ? 409598 : 409600)); });
                            })),
      {"ranks called different operations: ranks 0, 2: all_reduce of 409600 f32 (sum) (operation 0); rank "
       "1: all_reduce of 409598 f32 (sum) (operation 0)"});
  expect_one_with(
      reports(run_processes(2,
                            [](const World& w) {
                              expect_throw<CommError>([&] {
                                w->all_reduce(zeros(409600, w->rank() ? DType::bf16 : DType::f32));
                              });
                            })),
      {"rank 0: all_reduce of 409600 f32 (sum) (operation 0); rank 1: all_reduce of 409600 bf16 (sum)"});
  expect_one_with(
      reports(run_processes(2,
                            [](const World& w) {
                              expect_throw<CommError>([&] { w->allocator()->allocate(1024 << w->rank()); });
                            })),
      {"ranks ask its allocator for different numbers of bytes: rank 0: 1024, rank 1: 2048"});
}

TEST(ProcessFaults, AnAbortReachesOtherProcesses) {
  expect_one_with(reports(run_processes(3,
                                        [](const World& w) {
                                          const World part = w->split(0, w->rank());
                                          w->barrier();
                                          if (w->rank() == 2) w->abort("enough");
                                          expect_throw<CommError>([&] {
                                            while (true) part->barrier();
                                          });
                                        })),
                  {"communicator world: aborted by rank 2: enough"});
}

// -- no space, in a mount namespace of its own with a small /dev/shm
constexpr int not_allowed = 77;

// The exit code of `body`, run in a child that sees a /dev/shm of `size`.
int with_small_shm(const char* size, const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("shoal", "/dev/shm", "tmpfs", 0, size) != 0)
      ::_exit(not_allowed);
    body();
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ProcessFaults, NoSpaceNamesTheSizeAndTheWayOut) {
  const int code = with_small_shm("size=8m", [] {
    const std::int64_t count = 4 << 20;  // 16 MiB for each rank
    const auto refused = run_processes(2, [&](const World& w) {
      expect_throw<DeviceError>([&] { Tensor::empty({count}, DType::f32, w->allocator()); });
      const Tensor small = Tensor::empty({1000}, DType::f32, w->allocator());  // the communicator goes on
      std::memset(small.data(), 0, small.nbytes());
      w->all_reduce(small);
    });
    expect_one_with(reports(refused),
                    {"16777216 bytes for each of 2 ranks: no space in /dev/shm: 33554432 bytes are "
                     "needed, ",
                     "SHOAL_SHARED_BUFFERS=0"});
    CommOptions options;
    options.shared_buffers = false;
    test::expect_success(run_processes(
        2,
        [&](const World& w) {
          const Tensor t = Tensor::empty({count}, DType::f32, w->allocator());
          for (std::int64_t i = 0; i < count; ++i) t.as<float>()[i] = static_cast<float>(i % 7 + w->rank());
          w->all_reduce(t);
          for (std::int64_t i = 0; i < count; ++i)
            ASSERT_EQ(t.as<float>()[i], static_cast<float>(2 * (i % 7) + 1));
        },
        options));
  });
  if (code == not_allowed) GTEST_SKIP() << "a mount namespace with a small /dev/shm may not be made here";
  EXPECT_EQ(code, 0);
}

TEST(ProcessFaults, NoSpaceForACommunicatorFailsAlikeOnAllRanks) {
  const int code = with_small_shm("size=16k", [] {
    const auto outcomes = run_processes(2, [](const World&) {});
    for (const auto& o : outcomes) {
      EXPECT_EQ(o.exit_code, 1);
      EXPECT_NE(o.report.find("rank 0: communicator world: no space in /dev/shm: "), std::string::npos)
          << o.report;
    }
  });
  if (code == not_allowed) GTEST_SKIP() << "a mount namespace with a small /dev/shm may not be made here";
  EXPECT_EQ(code, 0);
}

struct Held {
  std::ptrdiff_t descriptors = 0, mappings = 0;
};
Held held() {
  Held h;
  for ([[maybe_unused]] const auto& f : std::filesystem::directory_iterator("/proc/self/fd")) ++h.descriptors;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) h.mappings += line.find("/dev/shm") != std::string::npos;
  return h;
}

TEST(ProcessFaults, HundredsOfCommunicatorsLeaveNothing) {
  test::expect_success(run_processes(2, [](const World& w) {
    const auto round = [&](int k) {
      const World part = w->split(0, w->rank());
      part->barrier();
      if (k % 10 == 0) {
        const Tensor t = Tensor::empty({50000}, DType::f32, part->allocator());
        std::memset(t.data(), 0, t.nbytes());
        part->all_reduce(t);
        part->all_reduce(zeros(50000));
        part->send(zeros(9), w->rank());
        part->recv(zeros(9), w->rank());
      }
    };
    round(0);
    const Held before = held();
    for (int k = 0; k < 300; ++k) round(k);
    const Held after = held();
    EXPECT_EQ(after.descriptors, before.descriptors);
    EXPECT_EQ(after.mappings, before.mappings);
  }));
}

TEST(ProcessFaults, SegmentsAreForTheirOwnerOnlyAndHaveNoName) {
  test::expect_success(run_processes(2, [](const World& w) {
    const Tensor t = Tensor::empty({5000}, DType::f32, w->allocator());
    w->barrier();
    EXPECT_EQ(files_left(), 0);
    std::ifstream maps("/proc/self/maps");
    int segments = 0;
    for (std::string line; std::getline(maps, line);) {
      if (line.find("/dev/shm") == std::string::npos) continue;
      ++segments;
      EXPECT_NE(line.find("(deleted)"), std::string::npos) << line;
      struct stat s;
      const std::string range = line.substr(0, line.find(' '));
      if (::stat(("/proc/self/map_files/" + range).c_str(), &s) == 0) {
        EXPECT_EQ(s.st_mode & 0777, 0600u);
      }
    }
    EXPECT_GE(segments, 2);
    w->barrier();
  }));
}

}  // namespace
}  // namespace shoal
