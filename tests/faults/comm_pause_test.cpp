// A rank that pauses longer than the deadline in the middle of a large operation, and then goes on: the others have given
// up and use their memory for something else, so it may not take what it finds there for a result.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <new>
#include <thread>

#include "shoal/core/error.hpp"
#include "support/processes.hpp"

namespace shoal {
namespace {

using World = std::shared_ptr<Communicator>;
using Seconds = std::chrono::duration<double>;
// Elements that take tens of milliseconds, and seconds that suffice for all else.
#ifdef SHOAL_SANITIZED
constexpr std::int64_t part = 1 << 18;
constexpr double deadline = 5;
constexpr int rounds = 1;
#else
constexpr std::int64_t part = 4 << 20;
constexpr double deadline = 1.5;
constexpr int rounds = 3;
#endif

struct Shared {
  std::atomic<int> paused{0};  // the process that pauses
  std::atomic<bool> given_up{false};
};
Shared& shared() {
  static Shared* made =
      new (::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared;
  return *made;
}

void fill(const Tensor& t, float value) {
  for (std::int64_t i = 0; i < t.numel(); ++i) t.as<float>()[i] = value;
}

// Rank 1 is stopped `delay` milliseconds after the operations begin; once rank 0 has given up it changes its memory and
// lets rank 1 go on. Every operation of rank 1 that does not throw has the right result.
void pause(double delay, bool shared_memory,
           const std::function<void(const World&, const Tensor&, const Tensor&)>& run) {
  Shared& s = shared();
  s.paused = 0;
  s.given_up = false;
  const auto outcomes = test::run_processes(
      2,
      [&](const World& w) {
        const auto memory = shared_memory ? w->allocator() : default_allocator({});
        const Tensor in = Tensor::empty({2 * part}, DType::f32, memory);
        const Tensor out = Tensor::empty({part}, DType::f32, memory);
        fill(in, 1);
        fill(out, 0);
        if (w->rank() == 1) s.paused = ::getpid();
        w->barrier();
        std::thread stopper;
        if (w->rank() == 0)
          stopper = std::thread([&] {
            std::this_thread::sleep_for(Seconds(delay * 1e-3));
            ::kill(s.paused, SIGSTOP);
            while (!s.given_up) std::this_thread::sleep_for(Seconds(0.01));
            ::kill(s.paused, SIGCONT);
          });
        try {
          for (int i = 0; i < 1000; ++i) {
            run(w, in, out);
            for (std::int64_t k = 0; k < part; k += 509)
              if (out.as<float>()[k] == 77 || out.as<float>()[k] == 78)
                ADD_FAILURE() << "what another rank wrote after it had given up, at " << k;
          }
          ADD_FAILURE() << "nothing was thrown";
        } catch (const CommError&) {
          fill(in, 77);
        }
        s.given_up = true;
        if (stopper.joinable()) stopper.join();
      },
      {.timeout = Seconds(deadline)});
  test::expect_success(outcomes);
}

TEST(Pause, WhatAPausedRankReadsLateIsNoResult) {
  for (const bool shared_memory : {false, true}) {
    SCOPED_TRACE(testing::Message() << "shared memory " << shared_memory);
    pause(9, shared_memory, [](const World& w, const Tensor& in, const Tensor& out) {
      w->reduce_scatter(in, out, ReduceOp::max);
    });
    pause(15, shared_memory,
          [](const World& w, const Tensor& in, const Tensor& out) { w->all_to_all(in.slice(0, part), out); });
    pause(21, shared_memory, [](const World& w, const Tensor& in, const Tensor& out) {
      w->group_start();
      w->recv(out, 1 - w->rank());
      w->send(in.slice(0, part), 1 - w->rank());
      w->group_end();
    });
  }
}

// A third rank whose message the stopped one has begun to take.
TEST(Pause, NobodyWaitsForAStoppedReceiver) {
  for (int round = 0; round < rounds; ++round) {
    const auto outcomes =
        test::run_processes(3,
                            [&](const World& w) {
                              const int n = w->size(), r = w->rank();
                              const Tensor in = Tensor::empty({part}, DType::f32, w->allocator());
                              const Tensor out = Tensor::empty({part}, DType::f32, w->allocator());
                              fill(in, 1);
                              fill(out, 0);
                              w->barrier();
                              std::thread stopper;
                              if (r == 2)
                                stopper = std::thread([round] {
                                  std::this_thread::sleep_for(Seconds(0.02 + 0.007 * round));
                                  ::raise(SIGSTOP);
                                });
                              EXPECT_THROW(
                                  {
                                    while (true) {
                                      w->group_start();
                                      w->recv(out, (r + n - 1) % n);
                                      w->send(in, (r + 1) % n);
                                      w->group_end();
                                    }
                                  },
                                  CommError);
                              if (stopper.joinable()) stopper.join();
                            },
                            {.timeout = Seconds(deadline)});
    EXPECT_EQ(outcomes[0].exit_code, 0) << outcomes[0].report;
    EXPECT_EQ(outcomes[1].exit_code, 0) << outcomes[1].report;
    EXPECT_EQ(outcomes[2].signal, SIGKILL);  // by the test, when the others have ended
  }
}

}  // namespace
}  // namespace shoal
