// Which settings rules give to which logical tensor, and where the flat buffers are cut for them.
#include "shoal/optim/groups.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"
#include "src/optim/runs.hpp"
#include "support/expect_message.hpp"
#include "support/logical.hpp"

namespace shoal::optim {
namespace {

using enum nn::ParameterKind;
using test::LogicalModel;

struct Fixture {
  Stream stream = Stream::create({DeviceType::cpu, 0});
  LogicalModel model;
  parallel::BucketEngine engine;
  explicit Fixture(bool fused = true, std::int64_t pieces = 3)
      : model(fused, pieces), engine(model.list(), make_self(), {}, stream) {}

  std::map<std::string, Settings> settings(const OptimizerConfig& c) {
    std::map<std::string, Settings> by_name;
    const std::vector<Logical> all = logical_tensors(c, engine.flat());
    const auto entries = model.logical();
    EXPECT_EQ(all.size(), entries.size());
    for (std::size_t i = 0; i < all.size(); ++i) by_name[entries[i].info().name] = all[i].settings;
    return by_name;
  }
  // The names of the tensors whose learning rate the rule scales.
  std::string covered(ParameterGroup rule) {
    rule.lr_scale = 7;
    std::string names;
    for (const auto& [name, s] : settings({.groups = {rule}}))
      if (s.lr_scale == 7) names += (names.empty() ? "" : " ") + name;
    return names;
  }
};

ParameterGroup by_name(const std::string& pattern) {
  ParameterGroup g;
  g.pattern = pattern;
  return g;
}

TEST(Groups, WithoutRulesMatricesAndHeadsDecay) {
  Fixture f;
  for (const bool embeddings : {false, true})
    for (const auto& [name, s] : f.settings({.weight_decay = 0.25, .decay_embeddings = embeddings})) {
      const bool vector = name.ends_with("bias") || name == "norm" || name == "empty";
      EXPECT_EQ(s.weight_decay, vector || (name == "embedding" && !embeddings) ? 0.0 : 0.25) << name;
      EXPECT_EQ(s.matrix, !vector && name != "embedding" && name != "head") << name;
      EXPECT_EQ(s.lr_scale, 1) << name;
    }
}

TEST(Groups, ConditionsAreAllNeeded) {
  Fixture f;
  EXPECT_EQ(f.covered(by_name("attention.?")), "attention.k attention.q attention.v");
  EXPECT_EQ(f.covered(by_name("*bias")), "attention.k_bias attention.q_bias");
  EXPECT_EQ(f.covered(by_name("up")), "up");
  ParameterGroup g;
  EXPECT_EQ(f.covered(g).size(),
            std::string("attention.k attention.k_bias attention.q attention.q_bias attention.v "
                        "down embedding empty head large norm up")
                .size());
  g.dims = 1;
  EXPECT_EQ(f.covered(g), "attention.k_bias attention.q_bias empty norm");
  g.kinds = {norm, head};
  EXPECT_EQ(f.covered(g), "norm");
  g.dims = 0;
  EXPECT_EQ(f.covered(g), "head norm");
  g.pattern = "h*";
  EXPECT_EQ(f.covered(g), "head");
  ParameterGroup tied;
  tied.tied = true;
  EXPECT_EQ(f.covered(tied), "embedding");
  tied.tied = false;
  tied.kinds = {embedding, head};
  EXPECT_EQ(f.covered(tied), "head");
}

TEST(Groups, TheFirstRuleHoldsAndLeavesTheRestAsItIs) {
  Fixture f;
  ParameterGroup first = by_name("attention.k"), second = by_name("attention.*");
  first.lr_scale = 2;
  first.eps = 1e-3;
  second.lr_scale = 3;
  second.weight_decay = 0.5;
  second.beta1 = 0.1;
  second.beta2 = 0.2;
  second.momentum = 0.3;
  const auto s = f.settings({.eps = 1e-5, .weight_decay = 0.25, .groups = {first, second}});
  EXPECT_EQ(s.at("attention.k"), (Settings{2, 0.25, 0.9, 0.999, 1e-3, 0.9, true}));
  EXPECT_EQ(s.at("attention.q"), (Settings{3, 0.5, 0.1, 0.2, 1e-5, 0.3, true}));
  EXPECT_EQ(s.at("attention.q_bias"), (Settings{3, 0.5, 0.1, 0.2, 1e-5, 0.3, false}));
  EXPECT_EQ(s.at("up"), (Settings{1, 0.25, 0.9, 0.999, 1e-5, 0.9, true}));
}

// q, k and v of 320, 160 and 160 elements in each of three pieces of 640, which are padded to 768.
TEST(Groups, AFusedPieceIsCutWhereItsTensorsDiffer) {
  ParameterGroup k = by_name("attention.k");
  k.lr_scale = 2;
  Fixture f;
  const OptimizerConfig c{.groups = {k}};
  const parallel::FlatParameters& flat = f.engine.flat();
  const std::int64_t at = shard::round_up(70 * 33, 256);
  ASSERT_EQ(flat.layout.segments[1].offset, at);
  std::vector<std::pair<std::int64_t, std::int64_t>> scaled;
  std::int64_t last = 0, state = 0;
  for (const optim::Run& r : make_runs(flat, logical_tensors(c, flat))) {
    EXPECT_EQ(r.elements.first, last);
    EXPECT_EQ(r.state, state);
    last = r.elements.last;
    state += r.elements.size();
    if (r.settings.lr_scale == 2) scaled.emplace_back(r.elements.first - at, r.elements.last - at);
  }
  EXPECT_EQ(last, flat.layout.numel);
  EXPECT_EQ(scaled, (std::vector<std::pair<std::int64_t, std::int64_t>>{
                        {320, 480}, {768 + 320, 768 + 480}, {1536 + 320, 1536 + 480}}));
}

TEST(Groups, ARuleThatCoversNothingIsNamed) {
  Fixture f;
  const auto refused = [&](std::vector<ParameterGroup> groups, const char* message) {
    EXPECT_MESSAGE(make_optimizer({.groups = std::move(groups)}, f.engine.flat(), f.stream), ConfigError,
                   message);
  };
  ParameterGroup g = by_name("atention.*");
  refused({g}, "optimizer.groups[0] covers no parameter: name \"atention.*\"");
  g.name = "heads";
  refused({by_name("up"), g}, "optimizer.groups[1] (\"heads\") covers no parameter: name \"atention.*\"");
  g.pattern.clear();
  g.kinds = {norm};
  g.dims = 2;
  refused({g}, "covers no parameter: kind norm, dims 2");
  g = {};
  g.kinds = {head};
  g.tied = true;
  refused({g}, "covers no parameter: kind head, tied true");
}

TEST(Groups, SettingsOutOfRangeAreNamed) {
  Fixture f;
  const auto refused = [&](auto&& set, const char* message) {
    ParameterGroup g = by_name("up");
    set(g);
    EXPECT_MESSAGE(make_optimizer({.groups = {g}}, f.engine.flat(), f.stream), ConfigError, message);
  };
  using G = ParameterGroup;
  refused([](G& g) { g.dims = 3; }, "optimizer.groups[0]: dims = 3: expected 1 (vectors) or 2 (matrices)");
  refused([](G& g) { g.lr_scale = -1; },
          "optimizer.groups[0]: lr_scale = -1: expected a finite number, 0 or more");
  refused([](G& g) { g.weight_decay = INFINITY; }, "weight_decay = inf");
  refused([](G& g) { g.beta1 = 1; }, "beta1 = 1: expected 0 or more and less than 1");
  refused([](G& g) { g.beta2 = NAN; }, "beta2 = nan");
  refused([](G& g) { g.momentum = -0.5; }, "momentum = -0.5");
  refused([](G& g) { g.eps = 1e-60; }, "eps = 1e-60");
}

}  // namespace
}  // namespace shoal::optim
