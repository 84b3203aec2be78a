#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "shoal/core/stream.hpp"

namespace shoal {
namespace {

TEST(Stream, IdleStreamRunsInTheCallingThread) {
  const Stream s = Stream::create({});
  std::thread::id where;
  s.host_task([&] { where = std::this_thread::get_id(); });
  EXPECT_EQ(where, std::this_thread::get_id());
  EXPECT_TRUE(s.record().query());
}

TEST(Stream, WorkAfterAWaitKeepsItsOrder) {
  const Stream a = Stream::create({}), b = Stream::create({});
  std::atomic<bool> release{false};
  std::atomic<int> order{0};
  // Blocks a's worker: a waits for an event of b, whose own queue is held by a task.
  std::thread holder([&] {
    b.host_task([&] {
      while (!release) std::this_thread::yield();
      order = 1;
    });
  });
  while (b.record().query()) std::this_thread::yield();
  const Event held = b.record();
  a.wait(held);
  int seen = -1;
  a.host_task([&] { seen = order; });
  EXPECT_FALSE(a.record().query());
  release = true;
  a.synchronize();
  EXPECT_EQ(seen, 1);
  holder.join();
}

TEST(Stream, SynchronizeRethrowsWhatAQueuedTaskThrew) {
  const Stream a = Stream::create({}), b = Stream::create({});
  std::atomic<bool> release{false};
  std::thread holder([&] {
    b.host_task([&] {
      while (!release) std::this_thread::yield();
    });
  });
  while (b.record().query()) std::this_thread::yield();
  a.wait(b.record());
  bool later = false;
  a.host_task([] { throw std::runtime_error("planted"); });
  a.host_task([&] { later = true; });
  const Event end = a.record();
  release = true;
  EXPECT_THROW(a.synchronize(), std::runtime_error);
  EXPECT_TRUE(end.query());
  EXPECT_FALSE(later);
  a.synchronize();  // the error was handed over once
  holder.join();
}

}  // namespace
}  // namespace shoal
