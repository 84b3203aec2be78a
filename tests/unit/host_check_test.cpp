// What a job asks of a host, and what the host has.
#include "src/train/host_check.hpp"

#include <gtest/gtest.h>

#include "shoal/core/error.hpp"
#include "support/expect_message.hpp"

namespace shoal::train {
namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;

TEST(HostCheck, ThreadsFarBeyondTheCoresAreRefused) {
  EXPECT_NO_THROW(check_threads(256, 1, 2));
  EXPECT_NO_THROW(check_threads(16, 64, 64));
  EXPECT_MESSAGE(
      check_threads(2000, 1, 2), ConfigError,
      "2000 ranks on this host x train.threads = 1 are 2000 threads: with 2 cores it takes 256 at most");
  EXPECT_MESSAGE(
      check_threads(1, 4096, 64), ConfigError,
      "1 rank on this host x train.threads = 4096 are 4096 threads: with 64 cores it takes 1024 at most");
  EXPECT_MESSAGE(check_threads(std::int64_t{1} << 62, 4096, 2), ConfigError, "it takes 256 at most");
}

TEST(HostCheck, MemoryIsComparedWithTheHosts) {
  Job job;
  job.train.micro_batch = 8;
  job.parallel.data = 4;
  MemoryPrediction rank;
  rank.parameters = rank.gradients = gib;
  rank.optimizer = 2 * gib;
  rank.activations = gib;
  EXPECT_EQ(check_memory(job, rank, 4, {20 * gib, 20 * gib}), std::nullopt);
  EXPECT_EQ(check_memory(job, rank, 4, {0, 0}), std::nullopt) << "not known";
  const auto warned = check_memory(job, rank, 4, {32 * gib, 19 * gib});
  ASSERT_TRUE(warned.has_value());
  EXPECT_EQ(
      *warned,
      "4 ranks on this host x 5.00 GiB predicted (parameters 1.00 GiB, gradients 1.00 GiB, optimizer 2.00 "
      "GiB, "
      "activations 1.00 GiB) = 20.00 GiB of memory, and 19.00 GiB of its 32.00 GiB are available: it may "
      "swap, or "
      "end for want of memory: what lowers it: train.micro_batch (now 8, for activations), parallel.zero = 1 "
      "(divides the optimizer's state), fewer ranks a host, model.layers, model.hidden, model.seq");
  EXPECT_MESSAGE(check_memory(job, rank, 4, {19 * gib, 19 * gib}), ConfigError,
                 "= 20.00 GiB of memory, and it has 19.00 GiB with swap: what lowers it: train.micro_batch");
  rank.activations = std::int64_t{1} << 62;
  EXPECT_MESSAGE(check_memory(job, rank, 1000, {19 * gib, 19 * gib}), ConfigError,
                 "it has 19.00 GiB with swap");
}

TEST(HostCheck, ThisHostHasMemory) {
  const HostMemory memory = host_memory();
  EXPECT_GT(memory.total, 0);
  EXPECT_GT(memory.available, 0);
  EXPECT_LE(memory.available, memory.total);
}

}  // namespace
}  // namespace shoal::train
