#include "shoal/optim/grad_scaler.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "shoal/core/error.hpp"
#include "support/expect_message.hpp"

namespace shoal::optim {
namespace {

using Scales = std::vector<double>;

// The scale after each event: x an overflow, any other character a clean step.
Scales scales(GradScaler& scaler, const std::string& events) {
  Scales seen;
  for (const char e : events) {
    scaler.update(e == 'x');
    seen.push_back(scaler.scale());
  }
  return seen;
}
Scales scales(const ScalerConfig& config, const std::string& events) {
  GradScaler scaler(config);
  return scales(scaler, events);
}

// What torch.cuda.amp.GradScaler (torch._amp_update_scale_) does with growth_interval 3 for these events.
TEST(GradScaler, GivesPyTorchsScales) {
  EXPECT_EQ(scales({.mode = "dynamic", .initial = 1024, .window = 3}, "...x..x...x......xx."),
            (Scales{1024, 1024, 2048, 1024, 1024, 1024, 512,  512,  512, 1024,
                    512,  512,  512,  1024, 1024, 1024, 2048, 1024, 512, 512}));
  // Other factors; a window of one grows at each clean step.
  EXPECT_EQ(
      scales({.mode = "dynamic", .initial = 64, .growth = 1.5, .backoff = 0.125, .window = 1}, "..x.xx"),
      (Scales{96, 144, 18, 27, 3.375, 1}));
}

TEST(GradScaler, TheDefaultsOfDynamicArePyTorchs) {
  GradScaler scaler({.mode = "dynamic"});
  EXPECT_EQ(scaler.scale(), 65536);
  EXPECT_EQ(scales(scaler, std::string(1999, '.')).back(), 65536);
  EXPECT_EQ(scales(scaler, ".").back(), 131072);
  EXPECT_EQ(scales(scaler, std::string(1999, '.') + "x").back(), 65536);
  EXPECT_EQ(scales(scaler, std::string(1999, '.')).back(), 65536);
  EXPECT_EQ(scales(scaler, ".").back(), 131072);
}

// Megatron-LM's: overflows use it up, clean steps between them restore nothing, a whole window restores all.
TEST(GradScaler, HysteresisSparesTheFirstOverflowsUntilAWholeWindow) {
  EXPECT_EQ(scales({.mode = "dynamic", .initial = 1024, .window = 3, .hysteresis = 2}, "x.xx...x.x"),
            (Scales{1024, 1024, 512, 256, 256, 256, 512, 512, 512, 256}));
  EXPECT_EQ(scales({.mode = "dynamic", .initial = 1024, .window = 9, .hysteresis = 3}, "xxxx"),
            (Scales{1024, 1024, 512, 256}));
}

TEST(GradScaler, NeitherFallsBelowTheMinimumNorRisesBeyondTwoToTheHundred) {
  EXPECT_EQ(scales({.mode = "dynamic", .initial = 8, .backoff = 0.25, .minimum = 4}, "xx"), (Scales{4, 4}));
  EXPECT_EQ(scales({.mode = "dynamic", .initial = 0x1p99, .growth = 4, .window = 1}, ".."),
            (Scales{0x1p100, 0x1p100}));
}

TEST(GradScaler, IsExhaustedByOverflowsInARowAtTheMinimum) {
  GradScaler scaler({.mode = "dynamic", .initial = 4, .give_up = 3});
  const auto after = [&](const std::string& events) {
    scales(scaler, events);
    return scaler.exhausted();
  };
  EXPECT_FALSE(after("xx"));  // to 2, to 1: these could lower it
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_FALSE(after("xx"));
  EXPECT_FALSE(after("."));
  EXPECT_FALSE(after("xx"));
  EXPECT_TRUE(after("x"));
  EXPECT_TRUE(after("x"));
  EXPECT_FALSE(after("."));
}

TEST(GradScaler, AStaticScaleStaysAndNoneIsOne) {
  GradScaler fixed({.mode = "static", .initial = 128, .window = 1});
  EXPECT_EQ(scales(fixed, ".xx.xxx"), Scales(7, 128.0));
  EXPECT_FALSE(fixed.exhausted());
  EXPECT_EQ(scales(fixed, "x"), Scales{128});
  EXPECT_TRUE(fixed.exhausted());

  GradScaler off({.window = 1});
  EXPECT_FALSE(off.enabled());
  EXPECT_EQ(scales(off, "..xxxxxx"), Scales(8, 1.0));
  EXPECT_FALSE(off.exhausted());
}

TEST(GradScaler, ContinuesFromItsState) {
  const ScalerConfig config{.mode = "dynamic", .initial = 64, .window = 3, .hysteresis = 2, .give_up = 2};
  const std::string events = "..x...xx.xxxxxxxxxx";
  for (std::size_t cut = 0; cut <= events.size(); ++cut) {
    GradScaler whole(config), before(config), after(config);
    const Scales expected = scales(whole, events);
    Scales got = scales(before, events.substr(0, cut));
    after.set_state(before.state());
    for (const double s : scales(after, events.substr(cut))) got.push_back(s);
    EXPECT_EQ(got, expected) << "cut at " << cut;
    EXPECT_EQ(after.state().hopeless, whole.state().hopeless) << "cut at " << cut;
    EXPECT_TRUE(after.exhausted());
  }
}

// The job's scale holds, whatever was saved under another.
TEST(GradScaler, AStaticScaleIsTheConfigurations) {
  GradScaler fixed({.mode = "static", .initial = 128});
  fixed.set_state({.scale = 32, .clean = 7, .patience = 1});
  EXPECT_EQ(fixed.scale(), 128);
  EXPECT_EQ(fixed.state().clean, 7);
}

TEST(GradScaler, RefusesAStateThatCannotBe) {
  GradScaler scaler({.mode = "dynamic", .initial = 64, .minimum = 8});
  const auto refused = [&](const GradScaler::State& s, const char* message) {
    EXPECT_MESSAGE(scaler.set_state(s), ConfigError, message);
    EXPECT_EQ(scaler.scale(), 64);
  };
  refused({.scale = 4}, "scale 4");
  refused({.scale = NAN}, "scale nan");
  refused({.scale = 0x1p101}, "scale 2.5");
  refused({.scale = 8, .clean = -1}, "-1 clean steps");
  refused({.scale = 8, .patience = 2}, "patience 2 of 1");
  refused({.scale = 8, .hopeless = -3}, "impossible");
}

TEST(GradScaler, RefusesImpossibleOptionsAndNamesThem) {
  const auto refused = [](ScalerConfig c, const char* message) {
    if (c.mode == "off") c.mode = "dynamic";
    EXPECT_MESSAGE(GradScaler{c}, ConfigError, message);
  };
  const double inf = std::numeric_limits<double>::infinity();
  refused({.mode = "on"}, "scaler.mode = \"on\": expected dynamic, static or off");
  refused({.initial = 0}, "scaler.initial = 0");
  refused({.initial = -2}, "scaler.initial = -2");
  refused({.initial = inf}, "scaler.initial = inf");
  refused({.initial = NAN}, "scaler.initial = nan");
  refused({.minimum = 0}, "scaler.minimum = 0");
  refused({.initial = 4, .minimum = 8}, "scaler.initial = 4: expected at least scaler.minimum = 8");
  refused({.growth = 0.5}, "scaler.growth = 0.5");
  refused({.growth = inf}, "scaler.growth = inf");
  refused({.backoff = 1}, "scaler.backoff = 1: expected above 0 and below 1");
  refused({.backoff = 0}, "scaler.backoff = 0");
  refused({.window = 0}, "scaler.window = 0: expected 1 step or more");
  refused({.hysteresis = 0}, "scaler.hysteresis = 0");
  refused({.give_up = -1}, "scaler.give_up = -1");
  EXPECT_NO_THROW(GradScaler({.mode = "static", .initial = 0.5}));  // the minimum does not matter then
}

}  // namespace
}  // namespace shoal::optim
