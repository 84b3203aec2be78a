// The Trainer on ranks that are threads: the layout never changes the run.
#include "shoal/train/trainer.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <mutex>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"
#include "shoal/train/diff.hpp"
#include "shoal/train/loss.hpp"
#include "src/train/host.hpp"
#include "support/expect_message.hpp"
#include "support/jobs.hpp"

namespace shoal::train {
namespace {

using Items = std::vector<std::string>;

struct Outcome {
  std::vector<Metrics> metrics;
  std::string weights;  // the bytes of model.safetensors
};

Outcome run(int ranks, const test::TempDir& dir, const Items& more) {
  Outcome result;
  run_local(ranks, [&](const std::shared_ptr<Communicator>& comm) {
    TrainerOptions options;
    options.on_step = [&](const Metrics& m) { result.metrics.push_back(m); };
    Trainer(test::tiny_job(dir, more), comm, options).run();
  });
  result.weights = test::read_file(dir / "run/model.safetensors");
  return result;
}

void expect_same_bits(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.metrics.size(), b.metrics.size());
  for (std::size_t i = 0; i < a.metrics.size(); ++i) {
    const Metrics &x = a.metrics[i], &y = b.metrics[i];
    EXPECT_EQ(std::bit_cast<std::uint64_t>(x.loss), std::bit_cast<std::uint64_t>(y.loss))
        << "step " << x.step;
    EXPECT_EQ(std::bit_cast<std::uint64_t>(x.grad_norm), std::bit_cast<std::uint64_t>(y.grad_norm))
        << "step " << x.step;
    EXPECT_EQ(x.tokens, y.tokens);
    EXPECT_EQ(x.val_loss.has_value(), y.val_loss.has_value());
    if (x.val_loss) {
      EXPECT_EQ(*x.val_loss, *y.val_loss) << "step " << x.step;
    }
  }
  EXPECT_FALSE(a.weights.empty());
  EXPECT_TRUE(a.weights == b.weights) << "the final weights differ";
}

class Reproducible : public testing::TestWithParam<const char*> {};

TEST_P(Reproducible, AnyRanksThreadsAndZeroStageGiveTheSameBits) {
  test::TempDir dir;
  Items job = {"reproducible.on=true", "reproducible.data=12", "train.steps=50",
               "train.eval_every=20",  "model.dropout=0.1",    GetParam()};
  if (job.back() == "model.type=llama") job.insert(job.end(), {"model.kv_heads=1", "model.dropout=0"});
  const Outcome reference = run(1, dir, job);
  ASSERT_EQ(reference.metrics.size(), 50u);
  EXPECT_LT(reference.metrics.back().loss, reference.metrics.front().loss - 1.0);
  ASSERT_TRUE(reference.metrics.back().val_loss.has_value());
  for (const int ranks : {1, 2, 3, 4}) {
    for (const char* threads : {"train.threads=1", "train.threads=2"}) {
      const char* zero = (ranks + (threads[14] == '1')) % 2 == 0 ? "parallel.zero=0" : "parallel.zero=1";
      SCOPED_TRACE(testing::Message() << ranks << " ranks, " << threads << ", " << zero);
      Items items = job;
      items.insert(items.end(), {threads, zero});
      expect_same_bits(reference, run(ranks, dir, items));
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Models, Reproducible, testing::Values("model.type=gpt", "model.type=llama"),
                         [](const auto& info) { return std::string(info.param).substr(11); });

TEST(Trainer, ZeroStagesAgreeWithoutReproducibleModeToo) {
  test::TempDir dir;
  const Outcome zero0 = run(2, dir, {"parallel.zero=0"}), zero1 = run(2, dir, {"parallel.zero=1"});
  ASSERT_EQ(zero0.metrics.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(zero0.metrics[i].loss, zero1.metrics[i].loss, 1e-5);
    EXPECT_NEAR(zero0.metrics[i].grad_norm, zero1.metrics[i].grad_norm, 1e-4);
  }
}

TEST(Trainer, MicrobatchesAndRanksComputeTheSameStep) {
  test::TempDir dir;
  const Outcome one = run(1, dir, {}), micro = run(1, dir, {"train.micro_batch=3"}), ranks = run(3, dir, {});
  for (std::size_t i = 0; i < one.metrics.size(); ++i) {
    EXPECT_NEAR(one.metrics[i].loss, micro.metrics[i].loss, 1e-5);
    EXPECT_NEAR(one.metrics[i].loss, ranks.metrics[i].loss, 1e-5);
    EXPECT_EQ(one.metrics[i].tokens, 12 * 16);
  }
}

// The same samples and the same dropout masks: only the order of sums differs.
TEST(Trainer, AnySplitIntoMicrobatchesIsTheSameRunWithDropout) {
  test::TempDir dir;
  const auto split = [&](int ranks, int micro) {
    return run(ranks, dir, {"model.dropout=0.3", "train.micro_batch=" + std::to_string(micro)});
  };
  const Outcome whole = split(1, 12);
  for (const auto& [ranks, micro] :
       {std::pair{1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 6}, {2, 6}, {2, 3}, {3, 4}, {4, 1}}) {
    const Outcome parts = split(ranks, micro);
    for (std::size_t i = 0; i < whole.metrics.size(); ++i) {
      EXPECT_NEAR(whole.metrics[i].loss, parts.metrics[i].loss, 1e-5) << ranks << " ranks, " << micro;
      EXPECT_NEAR(whole.metrics[i].grad_norm / parts.metrics[i].grad_norm, 1, 1e-5)
          << ranks << " ranks, " << micro;
    }
  }
}

TEST(Trainer, TheMeanLossIsOfTokensNotOfRanks) {
  run_local(2, [](const std::shared_ptr<Communicator>& comm) {
    const Stream stream = Stream::create(Device{});
    const bool first = comm->rank() == 0;  // one token of loss 4 here, three of loss 0 there
    const Tensor loss =
        to_device(stream, first ? std::vector<float>{4, 0, 0, 0} : std::vector<float>{0, 0, 0, 0});
    const std::int64_t count = agree_count(*comm, stream, first ? 1 : 3);
    EXPECT_EQ(count, 4);
    const double sum = tree_sum(gather_losses(*comm, stream, {microbatch_loss(stream, loss)}));
    EXPECT_EQ(sum / static_cast<double>(count), 1.0);
  });
}

TEST(Trainer, ThePredictedMemoryIsMeasured) {
  test::TempDir dir;
  const Items big = {"model.hidden=64", "model.heads=4", "model.seq=32", "train.steps=2",
                     "optimizer.warmup=0"};
  for (const auto& [ranks, more] : std::vector<std::pair<int, Items>>{
           {1, {}},
           {1, {"train.micro_batch=2"}},
           {2, {"parallel.zero=1"}},
           {2, {"parallel.zero=0", "model.dropout=0.1"}},
           {1, {"model.type=llama", "model.kv_heads=2"}},
           {3, {"model.type=llama", "optimizer.type=sgd"}},
           {1, {"reproducible.on=true", "reproducible.data=12"}},
           {2, {"reproducible.on=true", "reproducible.data=12", "parallel.zero=1"}},
           {1, {"model.type=llama", "reproducible.on=true", "reproducible.data=12"}},
           {2, {"model.vocab=259", "reproducible.on=true", "reproducible.data=12", "reproducible.tensor=4"}},
           {1, {"train.precision=bf16"}},
           {2, {"train.precision=fp16", "parallel.zero=1", "ema.decay=0.9"}},
           {2, {"train.precision=bf16", "precision.reduce_dtype=bf16"}},
           {2, {"train.precision=bf16", "precision.param_dtype=fp32", "model.dropout=0.1"}},
           {1, {"train.precision=bf16", "model.type=llama", "precision.master_weights=none"}},
           {2,
            {"train.precision=bf16", "reproducible.on=true", "reproducible.data=12", "reproducible.tensor=4",
             "parallel.zero=1"}},
           {1, {"optimizer.type=lion"}},
           {2, {"optimizer.type=adafactor"}},
           {2, {"optimizer.type=muon", "parallel.zero=1"}},
           {1, {"model.layers=1", "train.global_batch=1", "model.hidden=256"}},
           {1, {"model.layers=6", "train.global_batch=24"}}}) {
    Items items = big;
    items.insert(items.end(), more.begin(), more.end());
    SCOPED_TRACE(testing::Message() << ranks << " ranks, " << testing::PrintToString(more));
    MemoryPrediction predicted;
    std::int64_t peak = 0;
    run_local(ranks, [&](const std::shared_ptr<Communicator>& comm) {
      TrainerOptions options;
      options.on_start = [&](const MemoryPrediction& m) { predicted = m; };
      options.on_step = [&](const Metrics& m) { peak = m.peak_bytes; };
      Trainer(test::tiny_job(dir, items), comm, options).run();
    });
    EXPECT_GT(peak, 0);
    EXPECT_NEAR(static_cast<double>(peak) / static_cast<double>(predicted.total()), 1.0, 0.1)
        << "measured " << peak << ", predicted: parameters " << predicted.parameters << ", gradients "
        << predicted.gradients << ", optimizer " << predicted.optimizer << ", activations "
        << predicted.activations << ", other " << predicted.other;
  }
}

TEST(Trainer, NanNamesStepRankAndFirstLayer) {
  test::TempDir dir;
  const auto poisoned = [&](int ranks, int poisoned_rank) {
    run_local(ranks, [&](const std::shared_ptr<Communicator>& comm) {
      TrainerOptions options;
      std::string seen;
      int forwards = 0;
      options.observer = [&, rank = comm->rank()](const std::string& kind, const std::string& layer,
                                                  const Tensor& t) {
        if (kind != "activation" || layer.find("blocks.1") == std::string::npos || rank != poisoned_rank)
          return;
        if (!seen.empty() && seen != layer) return;  // one layer: the first of block 1
        seen = layer;
        if (++forwards == 1) return;  // not in the first step
        t.as<float>()[5] = std::numeric_limits<float>::quiet_NaN();
      };
      Trainer(test::tiny_job(dir), comm, options).run();
    });
  };
  EXPECT_MESSAGE(poisoned(2, 1), TrainError, "rank 1: step 2: the loss is nan");
  EXPECT_MESSAGE(poisoned(2, 1), TrainError, "is not finite is blocks.1");
  EXPECT_MESSAGE(poisoned(1, 0), TrainError, "step 2: the loss is nan");
}

TEST(Trainer, AGradientThatIsNotFiniteIsNamed) {
  test::TempDir dir;
  for (const char* zero : {"parallel.zero=0", "parallel.zero=1"}) {
    SCOPED_TRACE(zero);
    const auto poisoned = [&] {
      run_local(2, [&](const std::shared_ptr<Communicator>& comm) {
        TrainerOptions options;
        options.observer = [&, rank = comm->rank()](const std::string& kind, const std::string& layer,
                                                    const Tensor& t) {
          if (kind == "gradient" && layer == "blocks.0.mlp" && rank == 1)
            t.as<float>()[0] = std::numeric_limits<float>::infinity();
        };
        Trainer(test::tiny_job(dir, {zero}), comm, options).run();
      });
    };
    EXPECT_MESSAGE(poisoned(), TrainError, "step 1: the gradient norm is ");
    EXPECT_MESSAGE(poisoned(), TrainError, ": the gradient of blocks.0.");
  }
}

TEST(Trainer, NoStepsSaveTheInitialValues) {
  test::TempDir dir;
  const Outcome one = run(1, dir, {"train.steps=0"}), two = run(2, dir, {"train.steps=0"});
  EXPECT_TRUE(one.metrics.empty());
  EXPECT_FALSE(one.weights.empty());
  EXPECT_TRUE(one.weights == two.weights);
}

TEST(Trainer, RefusedOnAllRanksAlike) {
  test::TempDir dir;
  const std::string file = dir.write("file", "not a folder");
  const auto failing = [&](int ranks, const Items& more) {
    std::mutex mutex;
    std::vector<std::string> messages;
    run_local(ranks, [&](const std::shared_ptr<Communicator>& comm) {
      try {
        Trainer(test::tiny_job(dir, more), comm).run();
      } catch (const Error& e) {
        std::lock_guard lock(mutex);
        messages.push_back(e.what());
      }
    });
    EXPECT_EQ(messages.size(), static_cast<std::size_t>(ranks));
    for (const std::string& m : messages) EXPECT_EQ(m, messages[0]);
    return messages.empty() ? std::string() : messages[0];
  };
  EXPECT_NE(
      failing(2, {"run.dir=" + file + "/run"}).find("run directory " + file + "/run: it cannot be written"),
      std::string::npos);
  EXPECT_NE(failing(3, {"data.train=" + dir.write("short.txt", "too short")}).find("short.txt"),
            std::string::npos);
  EXPECT_NE(failing(2, {"model.vocab=100"}).find("100"), std::string::npos);
  EXPECT_NE(failing(3, {"train.global_batch=8"}).find("8 does not divide by 3"), std::string::npos);
}

}  // namespace
}  // namespace shoal::train
