// What happens to the other ranks when one fails, is late, or does something else: ranks as threads.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"
#include "support/expect_message.hpp"
#include "support/temp_dir.hpp"

namespace shoal {
namespace {

using World = std::shared_ptr<Communicator>;

Tensor ones(std::int64_t n, DType dtype = DType::f32) {
  const Tensor t = Tensor::empty({n}, dtype, default_allocator({}));
  std::memset(t.data(), 0, t.nbytes());
  return t;
}

// The messages with which each rank's body failed.
class Messages {
 public:
  template <class Exception, class F>
  void record(const F& body) {
    try {
      body();
      add("nothing was thrown");
    } catch (const Exception& e) {
      add(e.what());
    } catch (const std::exception& e) {
      add(std::string("another class: ") + e.what());
    }
  }
  std::set<std::string> different() const { return texts_; }
  int count() const { return count_; }

 private:
  void add(const std::string& text) {
    std::lock_guard lock(mutex_);
    texts_.insert(text);
    ++count_;
  }
  std::mutex mutex_;
  std::set<std::string> texts_;
  int count_ = 0;
};

CommOptions seconds(double s) { return {.timeout = std::chrono::duration<double>(s)}; }

TEST(Faults, OneRanksExceptionEndsTheOthersWaitAndIsTheOneRethrown) {
  Messages others;
  EXPECT_MESSAGE(run_local(4,
                           [&](const World& w) {
                             if (w->rank() == 2) throw TrainError("loss is NaN at step 7 in layer 3");
                             others.record<CommError>([&] { w->all_reduce(ones(100)); });
                           }),
                 TrainError, "loss is NaN at step 7 in layer 3");
  EXPECT_EQ(others.different(), std::set<std::string>{"rank 2 failed: loss is NaN at step 7 in layer 3"});
  EXPECT_EQ(others.count(), 3);
}

// The stack unwinds past a communicator whose thread waits for the others: it must not wait for them.
TEST(Faults, AnExceptionPassesACommunicatorWithWorkUnderWay) {
  EXPECT_MESSAGE(run_local(3,
                           [&](const World& w) {
                             const World half = w->split(0, w->rank());
                             const Stream s = Stream::create({});
                             if (w->rank() == 1) {
                               const Work work = half->all_reduce_async(ones(5), ones(5), ReduceOp::sum, s);
                               throw TrainError("the cause");
                             }
                             w->barrier();
                           }),
                 TrainError, "the cause");
}

TEST(Faults, DifferentOperationsAreNamedAlikeOnAllRanks) {
  const auto run = [](auto body) {
    Messages messages;
    run_local(4, [&](const World& w) { messages.record<CommError>([&] { body(w); }); });
    EXPECT_EQ(messages.count(), 4);
    EXPECT_EQ(messages.different().size(), 1u);
    return *messages.different().begin();
  };
  EXPECT_EQ(run([](const World& w) {
              w->barrier();
              if (w->rank() == 1)
                w->broadcast(ones(6), 3);
              else
                w->all_reduce(ones(6));
            }),
            "communicator world: ranks called different operations: ranks 0, 2, 3: all_reduce of 6 f32 (sum) "
            "(operation 1); rank 1: broadcast of 6 f32 from rank 3 (operation 1)");
  EXPECT_EQ(run([](const World& w) { w->all_reduce(ones(w->rank() < 2 ? 6 : 7)); }),
            "communicator world: ranks called different operations: ranks 0, 1: all_reduce of 6 f32 (sum) "
            "(operation 0); ranks 2, 3: all_reduce of 7 f32 (sum) (operation 0)");
  EXPECT_EQ(run([](const World& w) { w->all_reduce(ones(6, w->rank() == 3 ? DType::f64 : DType::f32)); }),
            "communicator world: ranks called different operations: ranks 0, 1, 2: all_reduce of 6 f32 (sum) "
            "(operation 0); rank 3: all_reduce of 6 f64 (sum) (operation 0)");
  EXPECT_EQ(run([](const World& w) { w->broadcast(ones(2), w->rank() == 0 ? 1 : 2); }),
            "communicator world: ranks called different operations: rank 0: broadcast of 2 f32 from rank 1 "
            "(operation 0); ranks 1, 2, 3: broadcast of 2 f32 from rank 2 (operation 0)");
  EXPECT_EQ(
      run([](const World& w) { w->reduce_tree({ones(4)}, 8, w->rank(), w->rank() + 1, ones(4)); }),
      "communicator world: reduce_tree of 4 f32 over 8 leaves (operation 0): the ranks hold 4 of 8 leaves");
}

TEST(Faults, AStuckRankIsNamedOnEveryRank) {
  Messages messages;
  run_local(
      4,
      [&](const World& w) {
        if (w->rank() == 1 || w->rank() == 3) std::this_thread::sleep_for(std::chrono::milliseconds(900));
        messages.record<TimeoutError>([&] { w->all_reduce(ones(3)); });
      },
      seconds(0.3));
  EXPECT_EQ(messages.different(),
            std::set<std::string>{
                "communicator world: all_reduce of 3 f32 (sum) (operation 0): ranks 1, 3 had not "
                "arrived after 0.3 s (rank 1: before its first operation; rank 3: before its first "
                "operation)"});
  EXPECT_EQ(messages.count(), 4);
}

TEST(Faults, AnErrorStaysWithACommunicatorAndItsSplits) {
  run_local(2, [](const World& w) {
    const World part = w->split(0, w->rank());
    const World apart = part->split(w->rank(), 0);
    w->barrier();
    if (w->rank() == 0) part->abort("no more of it");
    const std::string text = "communicator world/0: aborted by rank 0: no more of it";
    EXPECT_MESSAGE(part->barrier(), CommError, text);
    EXPECT_MESSAGE(part->all_reduce(ones(1)), CommError, text);
    EXPECT_MESSAGE(apart->barrier(), CommError, text);
    EXPECT_MESSAGE(part->split(0, 0), CommError, text);
    EXPECT_MESSAGE(part->send(ones(1), 0), CommError, text);
    const Stream s = Stream::create({});
    const Work work = part->all_reduce_async(ones(1), ones(1), ReduceOp::sum, s);
    EXPECT_MESSAGE(work.synchronize(), CommError, text);
    EXPECT_TRUE(work.is_completed());
    w->barrier();  // the whole goes on
  });
}

TEST(Faults, MessagesThatDoNotFitAndPeersThatDoNotCome) {
  Messages messages;
  run_local(2, [&](const World& w) {
    if (w->rank() == 0) w->send(ones(5), 1);
    if (w->rank() == 1) messages.record<CommError>([&] { w->recv(ones(6), 0); });
  });
  EXPECT_EQ(
      messages.different(),
      std::set<std::string>{"communicator world: rank 1: recv of 6 f32 from rank 0: rank 0 sends 5 f32"});
  Messages late;
  run_local(
      2,
      [&](const World& w) {
        if (w->rank() == 1) late.record<TimeoutError>([&] { w->recv(ones(6), 0); });
        if (w->rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(600));
      },
      seconds(0.2));
  EXPECT_EQ(late.different(),
            std::set<std::string>{"communicator world: rank 1: recv of 6 f32 from rank 0: rank 0 "
                                  "had not arrived after 0.2 s"});
  Messages unsent;  // too large to be copied: waits for its receiver
  run_local(
      2,
      [&](const World& w) {
        if (w->rank() == 1) unsent.record<TimeoutError>([&] { w->send(ones(1 << 20), 0); });
        if (w->rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(600));
      },
      seconds(0.2));
  EXPECT_EQ(unsent.different(),
            std::set<std::string>{"communicator world: rank 1: send of 1048576 f32 to rank 0: "
                                  "rank 0 had not arrived after 0.2 s"});
}

TEST(Faults, ARankThatReturnedIsNotWaitedFor) {
  Messages messages;
  run_local(3, [&](const World& w) {
    const World part = w->split(0, -w->rank());
    if (w->rank() == 2) return;
    messages.record<CommError>([&] { part->all_reduce(ones(3)); });
  });
  EXPECT_EQ(messages.different(),
            std::set<std::string>{
                "communicator world/0: all_reduce of 3 f32 (sum) (operation 0): rank 0 has returned "
                "from its work"});
}

// What was to follow a failed collective on a stream does not run.
TEST(Faults, AFailedCollectiveFailsTheStreamThatWaitsForIt) {
  run_local(2, [](const World& w) {
    const Stream s = Stream::create({}), after = Stream::create({});
    bool ran = false;
    if (w->rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      w->abort("on purpose");
      return;
    }
    const Work work = w->all_reduce_async(ones(2), ones(2), ReduceOp::sum, s);
    work.wait(after);
    after.host_task([&] { ran = true; });
    EXPECT_MESSAGE(after.synchronize(), CommError, "aborted by rank 1: on purpose");
    EXPECT_FALSE(ran);
  });
}

TEST(Faults, BadOptions) {
  EXPECT_MESSAGE(run_local(0, [](const World&) {}), ConfigError, "0 ranks");
  EXPECT_MESSAGE(run_local(1025, [](const World&) {}), ConfigError, "1025 ranks: expected 1 to 1024");
  EXPECT_MESSAGE(make_self(seconds(0)), ConfigError, "timeout of 0 s");
}

TEST(Faults, ThresholdsThatAreNoneAreNamed) {
  const test::TempDir dir;
  const auto file = dir.path() / "thresholds";
  const auto with = [&](const std::string& text) {
    std::ofstream(file) << text;
    run_local(1, [](const World&) {});
  };
  ::setenv("SHOAL_COMM_TUNING", file.c_str(), 1);
  with("# nothing\n\n local.stage_bytes = 65536 # bytes\n");
  EXPECT_MESSAGE(
      with("local.stage_bytes = 65536\nlocal.stage_byte = 1\n"), ConfigError,
      "line 2: \"local.stage_byte = 1\" is no threshold (NAME = NUMBER, with local.inline_bytes, ");
  EXPECT_MESSAGE(with("garbage\x01\n"), ConfigError, "line 1: \"garbage?\" is no threshold");
  EXPECT_MESSAGE(with("local.direct = yes"), ConfigError,
                 "local.direct = yes: expected a whole number from 0 to 1");
  ::setenv("SHOAL_COMM_TUNING", dir.path().c_str(), 1);
  EXPECT_MESSAGE(run_local(1, [](const World&) {}), ConfigError, "cannot be read");
  ::unsetenv("SHOAL_COMM_TUNING");
}

}  // namespace
}  // namespace shoal
