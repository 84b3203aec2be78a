#include "support/processes.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "comm/backends/local/world.hpp"
#include "shoal/core/error.hpp"

namespace shoal::test {
namespace {

constexpr int most_ranks = 16;
using Clock = std::chrono::steady_clock;

// Shared by the test and its children.
struct Shared {
  struct Rank {
    std::atomic<int> round;
    int length[2];
    char text[2][8192];
    char report[8192];
  } rank[most_ranks];
};

Shared* shared = nullptr;
int own_rank = 0;

class ForkRendezvous final : public comm::Rendezvous {
 public:
  ForkRendezvous(int r, int n) : Rendezvous(r, n) {}
  std::vector<std::string> all_gather(const std::string& mine) override {
    const int k = ++round_;
    Shared::Rank& own = shared->rank[rank];
    own.length[k & 1] = static_cast<int>(mine.size());
    std::memcpy(own.text[k & 1], mine.data(), mine.size());
    own.round.store(k, std::memory_order_release);
    std::vector<std::string> all;
    const auto start = Clock::now();
    for (int r = 0; r < size; ++r) {
      while (shared->rank[r].round.load(std::memory_order_acquire) < k) {
        if (Clock::now() - start > std::chrono::seconds(60))
          throw TimeoutError(fmt::format("rank {} did not come", r));
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
      all.emplace_back(shared->rank[r].text[k & 1], shared->rank[r].length[k & 1]);
    }
    return all;
  }

 private:
  int round_ = 0;
};

[[noreturn]] void run_rank(int rank, int ranks, const Body& body, const CommOptions& options, bool apart) {
  own_rank = rank;
  int code = 0;
  // What has failed in the test before is not this rank's failure.
  const testing::TestResult* result = testing::UnitTest::GetInstance()->current_test_info()->result();
  const int before = result->total_part_count();
  try {
    std::shared_ptr<Communicator> world;
    {
      ForkRendezvous meeting(rank, ranks);
      std::vector<comm::local::Place> places = comm::local::gather_places(meeting);
      for (int r = 0; apart && r < ranks; ++r) places[r].processes = fmt::format("namespace {}", r);
      world = comm::local::make_world(meeting, places, options, nullptr);
    }
    body(world);
  } catch (const std::exception& e) {
    report(e.what());
    std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
    code = 1;
  }
  for (int i = before; i < result->total_part_count(); ++i)
    if (result->GetTestPartResult(i).failed()) code = 1;
  std::fflush(nullptr);
  std::exit(code);
}

// Waits for one child to end; kills the others when all that are left are stopped, or after too long.
void wait_for(std::vector<pid_t>& left, std::vector<Outcome>& outcomes) {
  const auto start = Clock::now();
  std::vector<bool> stopped(left.size());
  std::size_t running = left.size();
  while (running > 0) {
    std::size_t still = 0;
    for (std::size_t r = 0; r < left.size(); ++r) {
      if (left[r] < 0) continue;
      int status = 0;
      if (::waitpid(left[r], &status, WNOHANG | WUNTRACED | WCONTINUED) == left[r]) {
        stopped[r] = WIFSTOPPED(status);
        if (!stopped[r] && !WIFCONTINUED(status)) {
          if (WIFEXITED(status)) outcomes[r].exit_code = WEXITSTATUS(status);
          if (WIFSIGNALED(status)) outcomes[r].signal = WTERMSIG(status);
          left[r] = -1;
          continue;
        }
      }
      still += !stopped[r];
    }
    running = 0;
    for (pid_t p : left) running += p >= 0;
    const bool late = Clock::now() - start > std::chrono::seconds(280);
    if (running > 0 && (still == 0 || late)) {
      if (late) ADD_FAILURE() << running << " processes have not ended";
      for (pid_t p : left)
        if (p >= 0) ::kill(p, SIGKILL);
      stopped.assign(left.size(), false);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace

void report(const std::string& text) {
  std::strncpy(shared->rank[own_rank].report, text.c_str(), sizeof shared->rank[own_rank].report - 1);
}

std::vector<Outcome> run_processes(int ranks, const Body& body, const CommOptions& options, bool apart) {
  void* p = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED || ranks > most_ranks) throw Error("run_processes");
  shared = static_cast<Shared*>(p);
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (int r = 0; r < ranks; ++r) {
    const pid_t child = ::fork();
    if (child == 0) run_rank(r, ranks, body, options, apart);
    children.push_back(child);
  }
  std::vector<Outcome> outcomes(ranks);
  wait_for(children, outcomes);
  for (int r = 0; r < ranks; ++r) outcomes[r].report = shared->rank[r].report;
  ::munmap(p, sizeof(Shared));
  return outcomes;
}

void expect_success(const std::vector<Outcome>& outcomes) {
  for (std::size_t r = 0; r < outcomes.size(); ++r)
    EXPECT_EQ(outcomes[r].exit_code, 0)
        << "rank " << r << ": signal " << outcomes[r].signal << ", report: " << outcomes[r].report;
}

namespace {

class Arena final : public Allocator {
 public:
  Arena(void* block, std::int64_t bytes, std::shared_ptr<Allocator> otherwise)
      : base_(static_cast<std::byte*>(block)), bytes_(bytes), otherwise_(std::move(otherwise)) {
    free_[0] = bytes;
  }
  Device device() const override { return {DeviceType::cpu, 0}; }
  void* allocate(std::int64_t nbytes) override {
    if (nbytes == 0) return nullptr;
    const std::int64_t size = (nbytes + 255) / 256 * 256;
    std::lock_guard lock(mutex_);
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->second < size) continue;
      const auto [offset, room] = *it;
      free_.erase(it);
      if (room > size) free_[offset + size] = room - size;
      return base_ + offset;
    }
    return otherwise_->allocate(nbytes);
  }
  void deallocate(void* p, std::int64_t nbytes) noexcept override {
    const std::int64_t offset = static_cast<std::byte*>(p) - base_;
    if (!p) return;
    if (offset < 0 || offset >= bytes_) return otherwise_->deallocate(p, nbytes);
    std::lock_guard lock(mutex_);
    auto it = free_.emplace(offset, (nbytes + 255) / 256 * 256).first;
    if (const auto next = std::next(it); next != free_.end() && it->first + it->second == next->first) {
      it->second += next->second;
      free_.erase(next);
    }
    if (it == free_.begin()) return;
    if (const auto before = std::prev(it); before->first + before->second == it->first) {
      before->second += it->second;
      free_.erase(it);
    }
  }
  MemoryStats stats() const override { return otherwise_->stats(); }
  void reset_peak() override { otherwise_->reset_peak(); }
  void release_cached() override { otherwise_->release_cached(); }

 private:
  std::byte* const base_;
  const std::int64_t bytes_;
  const std::shared_ptr<Allocator> otherwise_;
  std::mutex mutex_;
  std::map<std::int64_t, std::int64_t> free_;
};

}  // namespace

std::shared_ptr<Allocator> make_arena(void* block, std::int64_t bytes, std::shared_ptr<Allocator> otherwise) {
  return std::make_shared<Arena>(block, bytes, std::move(otherwise));
}

}  // namespace shoal::test
