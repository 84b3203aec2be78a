#include "shoal/optim/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "shoal/core/error.hpp"
#include "support/expect_message.hpp"

namespace shoal::optim {
namespace {

// nanoGPT's example: numbers that do not round nicely, so that "exactly" means something.
ScheduleConfig example(const char* type) {
  ScheduleConfig c;
  c.type = type;
  c.lr = 1e-3;
  c.min_lr = 1e-4;
  c.warmup = 100;
  c.steps = 2000;
  return c;
}

TEST(Schedule, WarmUpIsLinearAndEndsAtTheRate) {
  for (const char* type : {"cosine", "linear", "wsd", "constant"}) {
    const ScheduleConfig c = example(type);
    EXPECT_EQ(learning_rate(c, 0), 1e-3 * 0.01) << type;
    EXPECT_EQ(learning_rate(c, 49), 1e-3 * 0.5) << type;
    EXPECT_EQ(learning_rate(c, 99), 1e-3) << type;
    EXPECT_EQ(learning_rate(c, 100), 1e-3) << type;
  }
}

TEST(Schedule, NoWarmUpStartsAtTheRate) {
  for (const char* type : {"cosine", "linear", "wsd", "constant"}) {
    ScheduleConfig c = example(type);
    c.warmup = 0;
    EXPECT_EQ(learning_rate(c, 0), 1e-3) << type;
  }
}

TEST(Schedule, EndsAtTheLeastRateExactlyAndStaysThere) {
  for (const char* type : {"cosine", "linear", "wsd"}) {
    const ScheduleConfig c = example(type);
    EXPECT_GT(learning_rate(c, 1999), 1e-4) << type;
    EXPECT_EQ(learning_rate(c, 2000), 1e-4) << type;
    EXPECT_EQ(learning_rate(c, 5000), 1e-4) << type;
  }
  EXPECT_EQ(learning_rate(example("constant"), 5000), 1e-3);
}

TEST(Schedule, ValuesBetween) {
  EXPECT_DOUBLE_EQ(learning_rate(example("cosine"), 1050), (1e-3 + 1e-4) / 2);
  EXPECT_DOUBLE_EQ(learning_rate(example("cosine"), 575),
                   1e-4 + 9e-4 * (1 + std::sqrt(0.5)) / 2);  // a quarter
  EXPECT_DOUBLE_EQ(learning_rate(example("linear"), 575), 1e-3 - 9e-4 / 4);
  const ScheduleConfig wsd = example("wsd");  // decays from update 1800
  EXPECT_EQ(learning_rate(wsd, 1799), 1e-3);
  EXPECT_EQ(learning_rate(wsd, 1800), 1e-3);
  EXPECT_LT(learning_rate(wsd, 1801), 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate(wsd, 1900), (1e-3 + 1e-4) / 2);
}

TEST(Schedule, NeverRisesAfterTheWarmUp) {
  for (const char* type : {"cosine", "linear", "wsd", "constant"}) {
    const ScheduleConfig c = example(type);
    for (std::int64_t t = 100; t < 2010; ++t)
      ASSERT_GE(learning_rate(c, t), learning_rate(c, t + 1)) << type << t;
  }
}

TEST(Schedule, WarmUpMayTakeAllSteps) {
  ScheduleConfig c = example("cosine");
  c.steps = c.warmup;
  EXPECT_NO_THROW(check(c));
  EXPECT_EQ(learning_rate(c, 99), 1e-3);
  EXPECT_EQ(learning_rate(c, 100), 1e-4);
}

TEST(Schedule, WarmUpMayBeLongerThanTheSteps) {
  for (const char* type : {"cosine", "linear", "wsd", "constant"}) {
    ScheduleConfig c = example(type);
    c.steps = 20;
    EXPECT_NO_THROW(check(c)) << type;
    for (std::int64_t t = 0; t < 20; ++t)
      EXPECT_DOUBLE_EQ(learning_rate(c, t), 1e-3 * static_cast<double>(t + 1) / 100) << type;
    ASSERT_TRUE(shortened(c).has_value()) << type;
    EXPECT_NE(shortened(c)->find("optimizer.warmup = 100 is longer than train.steps = 20"),
              std::string::npos);
  }
  EXPECT_EQ(shortened(example("cosine")), std::nullopt);
}

TEST(Schedule, DecayOfWsdBeginsAfterTheWarmUp) {
  ScheduleConfig c = example("wsd");
  c.decay_fraction = 0.99;  // of 2000 updates, 100 of which are warm-up
  EXPECT_NO_THROW(check(c));
  EXPECT_EQ(learning_rate(c, 99), 1e-3);
  EXPECT_EQ(learning_rate(c, 100), 1e-3);
  EXPECT_LT(learning_rate(c, 101), 1e-3);
  EXPECT_EQ(
      shortened(c),
      "optimizer.warmup = 100 leaves 1900 of the 1980 updates in which optimizer.decay_fraction = 0.99 of "
      "train.steps = 2000 would decay: the decay begins later");
}

TEST(Schedule, RefusesImpossibleNumbersAndNamesThem) {
  EXPECT_NO_THROW(check(example("wsd")));
  const auto with = [](auto change) {
    ScheduleConfig c = example("wsd");
    change(c);
    return c;
  };
  EXPECT_MESSAGE(check(with([](auto& c) { c.type = "cosin"; })), ConfigError,
                 "\"cosin\": expected cosine, linear, wsd or constant");
  EXPECT_MESSAGE(learning_rate(with([](auto& c) { c.type = "cosin"; }), 500), ConfigError, "cosin");
  EXPECT_MESSAGE(check(with([](auto& c) { c.lr = -1; })), ConfigError, "lr = -1");
  EXPECT_MESSAGE(check(with([](auto& c) { c.lr = NAN; })), ConfigError, "lr = nan");
  EXPECT_MESSAGE(check(with([](auto& c) { c.min_lr = 0.5; })), ConfigError, "min_lr = 0.5");
  EXPECT_MESSAGE(check(with([](auto& c) { c.warmup = -3; })), ConfigError, "warmup = -3");
  EXPECT_MESSAGE(check(with([](auto& c) { c.steps = 0; })), ConfigError, "over 0 updates");
  EXPECT_MESSAGE(check(with([](auto& c) { c.decay_fraction = 1.5; })), ConfigError, "1.5");
  EXPECT_MESSAGE(learning_rate(example("wsd"), -1), ConfigError, "update -1");
}

}  // namespace
}  // namespace shoal::optim
