// `shoal diff` on runs of a Trainer with SHOAL_CHECK=bits.
#include "shoal/train/diff.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"
#include "shoal/train/trainer.hpp"
#include "support/expect_message.hpp"
#include "support/jobs.hpp"

namespace shoal::train {
namespace {

using Items = std::vector<std::string>;

// Flips the last bit of one element of what `layer` shows as `kind` at its n-th time on `rank`.
struct Plant {
  std::string kind, layer;
  int nth = 0, rank = 0;
};

class Diff : public testing::Test {
 protected:
  void SetUp() override { ::setenv("SHOAL_CHECK", "bits", 1); }
  void TearDown() override { ::setenv("SHOAL_CHECK", "1", 1); }

  std::string run(const std::string& name, int ranks, const Items& more, const Plant& plant = {}) {
    Items items = {"run.dir=" + (dir_ / name), "reproducible.on=true", "reproducible.data=6",
                   "train.steps=3"};
    items.insert(items.end(), more.begin(), more.end());
    run_local(ranks, [&](const std::shared_ptr<Communicator>& comm) {
      TrainerOptions options;
      int seen = 0;
      options.observer = [&, rank = comm->rank()](const std::string& kind, const std::string& layer,
                                                  const Tensor& t) {
        if (kind != plant.kind || layer != plant.layer || rank != plant.rank || seen++ != plant.nth) return;
        std::uint32_t bits;
        std::memcpy(&bits, t.data(), sizeof bits);
        bits ^= 1;
        std::memcpy(t.data(), &bits, sizeof bits);
      };
      Trainer(test::tiny_job(dir_, items), comm, options).run();
    });
    return dir_ / name;
  }
  // A layer of block 1 that shows an activation gradient.
  std::string backward_layer() {
    std::string found;
    run_local(1, [&](const std::shared_ptr<Communicator>& comm) {
      TrainerOptions options;
      options.observer = [&](const std::string& kind, const std::string& layer, const Tensor&) {
        if (kind == "gradient" && found.empty() && layer.find("blocks.1") != std::string::npos) found = layer;
      };
      options.write_records = false;
      Trainer(test::tiny_job(dir_), comm, options).step();
    });
    return found;
  }
  test::TempDir dir_;
};

TEST_F(Diff, SixteenBitRunsOnDifferentRankCountsAreTheSame) {
  for (const char* precision : {"train.precision=bf16", "train.precision=fp16"}) {
    const RunDiff diff = diff_runs(run("a", 1, {precision}), run("b", 3, {precision, "parallel.zero=1"}));
    EXPECT_TRUE(diff.same) << diff.text;
    EXPECT_NE(diff.text.find("tensors compared"), std::string::npos) << diff.text;
  }
  const RunDiff diff = diff_runs(run("c", 1, {}), run("d", 1, {"train.precision=bf16"}));
  EXPECT_FALSE(diff.same);
}

TEST_F(Diff, RunsOnDifferentRankCountsAreTheSame) {
  const RunDiff diff = diff_runs(run("a", 1, {}), run("b", 3, {"parallel.zero=1", "train.threads=2"}));
  EXPECT_TRUE(diff.same) << diff.text;
  EXPECT_NE(diff.text.find("tensors compared"), std::string::npos) << diff.text;
}

TEST_F(Diff, APlantedDifferenceInABackwardIsNamed) {
  const std::string layer = backward_layer();
  ASSERT_FALSE(layer.empty());
  const std::string a = run("a", 1, {});
  // Rank 1 of 2 has shards 3 to 5, one microbatch of 2 samples each: its fifth backward is step 2, shard 4.
  const RunDiff diff = diff_runs(a, run("b", 2, {}, {"gradient", layer, 4, 1}));
  EXPECT_FALSE(diff.same);
  EXPECT_NE(diff.text.find("first difference: step 2, gradient of " + layer + ", piece 0, samples from 8: "),
            std::string::npos)
      << diff.text;
}

TEST_F(Diff, AnotherSeedDiffersFromTheStart) {
  const RunDiff diff = diff_runs(run("a", 1, {}), run("b", 1, {"train.seed=2"}));
  EXPECT_FALSE(diff.same);
  EXPECT_NE(diff.text.find("first difference: step 0, initial value of "), std::string::npos) << diff.text;
}

TEST_F(Diff, ALongerRunDiffersWhereTheOtherEnds) {
  const RunDiff diff = diff_runs(run("a", 1, {"optimizer.schedule=constant"}),
                                 run("b", 1, {"optimizer.schedule=constant", "train.steps=4"}));
  EXPECT_FALSE(diff.same);
  EXPECT_NE(diff.text.find("step 4"), std::string::npos) << diff.text;
  EXPECT_NE(diff.text.find("only in the second run"), std::string::npos) << diff.text;
}

TEST_F(Diff, MetricsAreComparedWithoutBits) {
  const std::string a = run("a", 1, {});
  ::setenv("SHOAL_CHECK", "1", 1);
  const RunDiff same = diff_runs(a, run("b", 2, {}));
  EXPECT_TRUE(same.same) << same.text;
  EXPECT_NE(same.text.find("metrics and final weights compared"), std::string::npos) << same.text;
  const RunDiff diff = diff_runs(a, run("b", 1, {"optimizer.lr=2e-2"}));
  EXPECT_FALSE(diff.same);
  EXPECT_NE(diff.text.find("metrics.jsonl line 1 (step 1): lr"), std::string::npos) << diff.text;
}

TEST_F(Diff, WhatIsNotARunIsRefused) {
  EXPECT_MESSAGE(diff_runs(dir_ / "none", dir_ / "none"), DataError, "none: not a run");
}

}  // namespace
}  // namespace shoal::train
