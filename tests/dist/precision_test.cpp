// Training in BF16 and FP16: the layout changes no bit, steps that overflow change nothing.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <mutex>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"
#include "shoal/train/trainer.hpp"
#include "support/expect_message.hpp"
#include "support/jobs.hpp"

namespace shoal::train {
namespace {

using Items = std::vector<std::string>;

#ifdef SHOAL_SANITIZED  // the same code, in fewer steps and layouts
constexpr int steps = 16;
const std::vector<int> rank_counts = {2, 3};
#else
constexpr int steps = 50;
const std::vector<int> rank_counts = {1, 2, 3, 4};
#endif

// Everything that a run is: its metrics, and the bytes of all parameters and of the optimizer's state by name.
struct Outcome {
  std::vector<Metrics> metrics;
  std::map<std::string, std::string> bytes;
};

void keep(Outcome& result, Trainer& trainer) {
  const auto& flat = trainer.engine().flat();
  const auto place = [&](const std::string& name, const Tensor& owned, std::int64_t element) {
    std::string& all = result.bytes[name];
    all.resize(static_cast<std::size_t>(flat.layout.numel * element));
    std::int64_t at = 0;
    for (const shard::Range& r : flat.owned) {
      std::copy_n(static_cast<const char*>(owned.data()) + at * element, r.size() * element,
                  all.begin() + r.first * element);
      at += r.size();
    }
  };
  for (const auto& [name, t] : trainer.optimizer().state()) place(name, t, size_of(t.dtype()));
  std::string& values = result.bytes["values"];
  values.assign(static_cast<const char*>(flat.values.data()), static_cast<std::size_t>(flat.values.nbytes()));
}

Outcome run(int ranks, const test::TempDir& dir, const Items& more) {
  Outcome result;
  std::mutex mutex;
  run_local(ranks, [&](const std::shared_ptr<Communicator>& comm) {
    TrainerOptions options;
    options.on_step = [&](const Metrics& m) { result.metrics.push_back(m); };
    Trainer trainer(test::tiny_job(dir, more), comm, options);
    trainer.run();
    const std::lock_guard lock(mutex);
    keep(result, trainer);
  });
  return result;
}

void expect_same_bits(const Outcome& a, const Outcome& b) {
  const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
  ASSERT_EQ(a.metrics.size(), b.metrics.size());
  for (std::size_t i = 0; i < a.metrics.size(); ++i) {
    const Metrics &x = a.metrics[i], &y = b.metrics[i];
    EXPECT_EQ(bits(x.loss), bits(y.loss)) << "step " << x.step;
    EXPECT_EQ(bits(x.grad_norm), bits(y.grad_norm)) << "step " << x.step;
    EXPECT_EQ(x.loss_scale, y.loss_scale) << "step " << x.step;
    EXPECT_EQ(x.skipped, y.skipped) << "step " << x.step;
    EXPECT_EQ(x.lr, y.lr) << "step " << x.step;
    ASSERT_EQ(x.overflow.has_value(), y.overflow.has_value()) << "step " << x.step;
    if (x.overflow) {
      EXPECT_EQ(x.overflow->parameter, y.overflow->parameter) << "step " << x.step;
    }
    EXPECT_EQ(x.val_loss, y.val_loss);
    EXPECT_EQ(x.val_loss_ema, y.val_loss_ema);
  }
  ASSERT_EQ(a.bytes.size(), b.bytes.size());
  for (const auto& [name, bytes] : a.bytes) EXPECT_TRUE(bytes == b.bytes.at(name)) << name << " differs";
}

int count_skipped(const Outcome& o) {
  int n = 0;
  for (const Metrics& m : o.metrics) n += m.skipped;
  return n;
}

struct Case {
  const char* name;
  Items items;
};
class Precision : public testing::TestWithParam<Case> {};

TEST_P(Precision, AnyRanksThreadsAndZeroStageGiveTheSameBits) {
  test::TempDir dir;
  Items job = {"reproducible.on=true",  "reproducible.data=12",   "train.steps=" + std::to_string(steps),
               "scaler.initial=1.0e10", "scaler.window=8",        "ema.decay=0.9",
               "train.eval_every=25",   "train.check_replicas=10"};
  job.insert(job.end(), GetParam().items.begin(), GetParam().items.end());
  const Outcome reference = run(1, dir, job);
  ASSERT_EQ(std::ssize(reference.metrics), steps);
  if (steps == 50) {
    EXPECT_LT(reference.metrics.back().loss, reference.metrics.front().loss - 0.5);
  }
  if (std::string(GetParam().name).find("fp16") != std::string::npos) {
    EXPECT_GT(count_skipped(reference), 5);  // at first, and whenever the scale has grown too much
    EXPECT_LT(count_skipped(reference), steps);
  }
  for (const int ranks : rank_counts) {
    for (const char* threads : {"train.threads=1", "train.threads=2"}) {
      const char* zero = (ranks + (threads[14] == '1')) % 2 == 0 ? "parallel.zero=0" : "parallel.zero=1";
      SCOPED_TRACE(testing::Message() << ranks << " ranks, " << threads << ", " << zero);
      Items items = job;
      items.insert(items.end(), {threads, zero});
      expect_same_bits(reference, run(ranks, dir, items));
    }
  }
}
INSTANTIATE_TEST_SUITE_P(
    Jobs, Precision,
    testing::Values(Case{"gpt_bf16", {"train.precision=bf16", "model.dropout=0.1", "reproducible.tensor=2"}},
                    Case{"gpt_fp16", {"train.precision=fp16", "model.dropout=0.1"}},
                    Case{"llama_bf16_none",
                         {"train.precision=bf16", "model.type=llama", "model.kv_heads=1",
                          "reproducible.tensor=2", "precision.master_weights=none"}},
                    Case{"llama_fp16", {"train.precision=fp16", "model.type=llama", "reproducible.tensor=2"}},
                    Case{"gpt_fp32_parameters_bf16", {"train.precision=bf16", "precision.param_dtype=fp32"}}),
    [](const auto& info) { return info.param.name; });

TEST(LossScale, APowerOfTwoChangesNoBitOfFp32) {
  test::TempDir dir;
  const Outcome plain = run(2, dir, {}), scaled = run(2, dir, {"scaler.mode=static", "scaler.initial=1024"});
  ASSERT_EQ(plain.metrics.size(), scaled.metrics.size());
  for (std::size_t i = 0; i < plain.metrics.size(); ++i) {
    EXPECT_EQ(plain.metrics[i].loss, scaled.metrics[i].loss);
    EXPECT_EQ(plain.metrics[i].grad_norm, scaled.metrics[i].grad_norm);
    EXPECT_EQ(scaled.metrics[i].loss_scale, 1024);
  }
  for (const auto& [name, bytes] : plain.bytes) EXPECT_TRUE(bytes == scaled.bytes.at(name)) << name;
}

TEST(LossScale, ASkippedStepMovesNothingAndNamesWhatOverflowed) {
  test::TempDir dir;
  for (const char* zero : {"parallel.zero=0", "parallel.zero=1"})
    run_local(2, [&](const std::shared_ptr<Communicator>& comm) {
      Trainer trainer(test::tiny_job(dir, {"train.precision=fp16", "scaler.initial=1.0e9",
                                           "optimizer.warmup=10", "train.steps=40", zero}),
                      comm);
      Outcome before, after;
      keep(before, trainer);
      int skipped = 0;
      Metrics m = trainer.step();
      for (; m.skipped; m = trainer.step()) {
        keep(after, trainer);
        EXPECT_TRUE(before.bytes == after.bytes);
        EXPECT_EQ(trainer.optimizer().applied(), 0);
        EXPECT_EQ(m.loss_scale, 1e9 * std::pow(0.5, skipped));
        EXPECT_EQ(m.step, ++skipped);
        ASSERT_TRUE(m.overflow.has_value());
        EXPECT_EQ(m.overflow->parameter, "wte.weight");  // of the tied head, which is the first to get one
        EXPECT_EQ(m.overflow->rank, 0);
        EXPECT_FALSE(std::isfinite(m.grad_norm));
        EXPECT_NE(m.json().find(R"("grad_norm":null)"), std::string::npos);
        EXPECT_NE(m.json().find(R"("skipped":true,"overflow":{"parameter":"wte.weight","rank":0})"),
                  std::string::npos);
      }
      EXPECT_GT(skipped, 3);
      EXPECT_EQ(trainer.optimizer().applied(), 1);
      EXPECT_EQ(m.lr, trainer.job().schedule.lr / 10);  // the schedule has not moved
    });
}

TEST(LossScale, TheLeastScaleOverflowingAgainAndAgainEndsTheRun) {
  test::TempDir dir;
  const auto hopeless = [&](const Items& items) {
    Items all = {"train.precision=fp16", "train.steps=100"};
    all.insert(all.end(), items.begin(), items.end());
    run(2, dir, all);
  };
  EXPECT_MESSAGE(
      hopeless({"scaler.initial=1.0e10", "scaler.minimum=1.0e9"}), TrainError,
      "the gradients overflowed 4 times in a row at a loss scale of 1000000000, the least there is "
      "(scaler.minimum); the last time first that of wte.weight, on rank 0");
  EXPECT_MESSAGE(hopeless({"scaler.mode=static", "scaler.initial=1.0e9"}), TrainError, "(scaler.initial)");
  EXPECT_MESSAGE(hopeless({"scaler.mode=off", "optimizer.lr=1000"}), TrainError, "is");
}

// The gradient of one logit is about 1 / (vocabulary x tokens): far below FP16's least number.
TEST(LossScale, KeepsLogitGradientsOfLargeBatchesFromUnderflow) {
  test::TempDir dir;
  const auto zeros = [&](const std::string& mode) {
    std::int64_t flushed = 0, all = 0;
    run_local(1, [&](const std::shared_ptr<Communicator>& comm) {
      TrainerOptions options;
      options.observer = [&](const std::string& kind, const std::string& layer, const Tensor& t) {
        if (kind != "gradient" || layer != "lm_head") return;
        const auto* h = static_cast<const std::uint16_t*>(t.data());
        for (std::int64_t i = 0; i < t.numel(); ++i) flushed += (h[i] & 0x7fffu) == 0;
        all += t.numel();
      };
      Trainer trainer(
          test::tiny_job(dir, {"train.precision=fp16", "train.global_batch=4096", "train.micro_batch=256",
                               "model.seq=64", "model.layers=1", "model.hidden=8", "model.heads=1",
                               "scaler.mode=" + mode,
                               "scaler.initial=" + std::string(mode == "static" ? "1" : "65536")}),
          comm, options);
      const Metrics m = trainer.step();
      EXPECT_GE(m.tokens, std::int64_t{1} << 18);
      EXPECT_FALSE(m.skipped);
    });
    EXPECT_EQ(all, (std::int64_t{1} << 18) * 256);
    return static_cast<double>(flushed) / static_cast<double>(all);
  };
  EXPECT_GT(zeros("static"), 0.5);
  EXPECT_LT(zeros("dynamic"), 0.01);
}

TEST(Outliers, AreSkippedAndSaidToBe) {
  test::TempDir dir;
  run_local(2, [&](const std::shared_ptr<Communicator>& comm) {
    TrainerOptions options;
    bool poison = false;
    options.observer = [&](const std::string& kind, const std::string& layer, const Tensor& t) {
      if (poison && kind == "gradient" && layer == "lm_head") t.as<float>()[3] += 1e4f;
    };
    Trainer trainer(test::tiny_job(dir, {"outliers.zscore=100", "outliers.minimum=5", "train.steps=20"}),
                    comm, options);
    for (int i = 0; i < 8; ++i) EXPECT_FALSE(trainer.step().skipped);
    Outcome before, after;
    keep(before, trainer);
    poison = true;
    const Metrics m = trainer.step();
    poison = false;
    keep(after, trainer);
    EXPECT_TRUE(m.skipped);
    ASSERT_TRUE(m.outlier.has_value());
    EXPECT_GT(*m.outlier, 100);
    EXPECT_FALSE(m.overflow.has_value());
    EXPECT_TRUE(before.bytes == after.bytes);
    EXPECT_EQ(trainer.optimizer().applied(), 8);
    EXPECT_FALSE(trainer.step().skipped);
  });
}

TEST(Average, IsThatOfTheWeightsAfterEveryUpdate) {
  test::TempDir dir;
  run_local(2, [&](const std::shared_ptr<Communicator>& comm) {
    Trainer trainer(test::tiny_job(dir, {"ema.decay=0.5", "parallel.zero=1", "train.steps=4"}), comm);
    const Tensor& values = trainer.engine().flat().values;
    std::vector<double> average(values.as<float>(), values.as<float>() + values.numel());
    for (int step = 0; step < 4; ++step) {
      trainer.step();
      for (std::size_t i = 0; i < average.size(); ++i)
        average[i] = 0.5 * average[i] + 0.5 * static_cast<double>(values.as<float>()[i]);
    }
    const double plain = trainer.evaluate(), averaged = trainer.evaluate_average();
    EXPECT_NE(plain, averaged);
    EXPECT_EQ(trainer.evaluate(), plain);  // the values are as they were
    const std::vector<float> kept(values.as<float>(), values.as<float>() + values.numel());
    for (std::size_t i = 0; i < average.size(); ++i) values.as<float>()[i] = static_cast<float>(average[i]);
    EXPECT_NEAR(trainer.evaluate(), averaged, 1e-6);
  });
}

}  // namespace
}  // namespace shoal::train
