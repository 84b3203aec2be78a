// Optimizers over tensors of the caller's own.
#include "shoal/optim/standalone.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"
#include "support/expect_message.hpp"
#include "support/half.hpp"

namespace shoal {
namespace {

using optim::NamedTensor;
using optim::OptimizerConfig;
using optim::TensorOptimizer;

struct Owner {
  Stream s = Stream::create({});
  test::Random random;
  std::vector<NamedTensor> values, gradients;

  explicit Owner(DType type = DType::f32) {
    for (const auto& [name, shape] : std::vector<std::pair<std::string, Shape>>{
             {"w", {7, 33}}, {"b", {7}}, {"e", {0}}, {"t", {2, 3, 5}}}) {
      values.push_back({name, test::narrowed(s, test::random_tensor(s, shape, random), type)});
      gradients.push_back({name, test::random_tensor(s, shape, random)});
    }
  }
};

// The same through an engine and an optimizer of one's own, which the other tests hold to references.
TEST(TensorOptimizer, IsTheFlatOptimizer) {
  for (const char* type : {"adamw", "adam", "sgd", "lion", "lamb", "adafactor", "muon"}) {
    Owner mine;
    const OptimizerConfig config{.type = type, .weight_decay = 0.125};
    TensorOptimizer optimizer(mine.values, config);

    std::vector<nn::Parameter> parameters(mine.values.size());
    std::vector<nn::Parameter*> list;
    std::vector<Tensor> copies;
    Owner theirs;  // the same numbers
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      nn::Parameter& p = parameters[i];
      const Tensor& v = mine.values[i].tensor;
      const bool matrix = v.shape().rank() > 1;
      p.name = mine.values[i].name;
      p.shape = matrix ? Shape{1, v.dim(0), v.numel() / v.dim(0)} : Shape{1, v.numel()};
      p.placement = shard::Placement::whole(p.name, p.shape.tail());
      list.push_back(&p);
    }
    parallel::BucketEngine engine(list, make_self(), {}, mine.s);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      copy(mine.s, mine.values[i].tensor.flat(), parameters[i].value.select(0).flat());
    mine.s.synchronize();
    const auto flat = optim::make_optimizer(config, engine.flat(), mine.s);
    for (int step = 0; step < 3; ++step) {
      for (std::size_t i = 0; i < parameters.size(); ++i)
        copy(mine.s, mine.gradients[i].tensor.flat(), parameters[i].grad[0].select(0).flat());
      flat->step(mine.s, 0.01, 1.0);
      mine.s.synchronize();
      EXPECT_FALSE(optimizer.step(mine.gradients, {.lr = 0.01}).skipped);
    }
    for (std::size_t i = 0; i < parameters.size(); ++i)
      EXPECT_TRUE(test::same_bits(mine.values[i].tensor.flat(), parameters[i].value.select(0).flat()))
          << type << " " << mine.values[i].name;
  }
}

TEST(TensorOptimizer, OverflowMovesNothing) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    Owner o(type);
    TensorOptimizer optimizer(o.values, {});
    optimizer.step(o.gradients, {});
    std::vector<Tensor> before;
    for (const NamedTensor& v : o.values) before.push_back(test::clone(o.s, v.tensor));
    for (const auto& state : optimizer.state()) before.push_back(test::clone(o.s, state.tensor));
    o.gradients[0].tensor.as<float>()[17] = INFINITY;
    const auto result = optimizer.step(o.gradients, {.loss_scale = 8});
    EXPECT_TRUE(result.skipped);
    EXPECT_FALSE(std::isfinite(result.grad_norm));
    EXPECT_EQ(optimizer.applied(), 1);
    std::size_t i = 0;
    for (const NamedTensor& v : o.values) EXPECT_TRUE(test::same_bits(before[i++], v.tensor)) << v.name;
    for (const auto& state : optimizer.state())
      EXPECT_TRUE(test::same_bits(before[i++], state.tensor)) << state.kind << " of " << state.value;
  }
}

TEST(TensorOptimizer, RanksThatSeeDifferentListsAreRefusedAlike) {
  std::mutex mutex;
  std::vector<std::string> messages;
  const auto refused = [&](const std::function<void(Owner&)>& on_rank_2) {
    messages.clear();
    run_local(3, [&](const std::shared_ptr<Communicator>& comm) {
      Owner o;
      TensorOptimizer optimizer(o.values, {}, comm);
      if (comm->rank() == 2) on_rank_2(o);
      const std::vector<float> before(o.values[0].tensor.as<float>(), o.values[0].tensor.as<float>() + 231);
      try {
        optimizer.step(o.gradients, {});
        ADD_FAILURE() << "not refused";
      } catch (const ConfigError& e) {
        const std::lock_guard lock(mutex);
        messages.emplace_back(e.what());
      }
      EXPECT_TRUE(std::equal(before.begin(), before.end(), o.values[0].tensor.as<float>()));
    });
    EXPECT_EQ(messages.size(), 3u);
    for (const std::string& m : messages) EXPECT_EQ(m, messages[0]);
    return messages.at(0);
  };
  EXPECT_NE(
      refused([](Owner& o) {
        o.gradients.pop_back();
      }).find("different gradients: number 3 is t f32[2, 3, 5] on cpu on rank 0 and nothing more on rank 2"),
      std::string::npos)
      << messages[0];
  EXPECT_NE(refused([](Owner& o) {
              std::swap(o.gradients[0], o.gradients[1]);
            }).find("number 0 is w f32[7, 33] on cpu on rank 0 and b f32[7] on cpu on rank 2"),
            std::string::npos)
      << messages[0];
}

TEST(TensorOptimizer, WhatDoesNotFitIsNamed) {
  Owner o;
  TensorOptimizer optimizer(o.values, {});
  EXPECT_MESSAGE(optimizer.step(o.gradients, {.loss_scale = 0}), ConfigError, "loss_scale = 0");
  EXPECT_MESSAGE(optimizer.step(o.gradients, {.lr = -1}), ConfigError, "lr = -1");
  EXPECT_MESSAGE(optimizer.step(o.gradients, {.max_norm = -1}), ConfigError, "-1");
  std::vector<NamedTensor> wrong = o.gradients;
  wrong[1].tensor = Tensor::empty({7}, DType::bf16, o.s);
  EXPECT_MESSAGE(optimizer.step(wrong, {}), ShapeError, "the gradient of b: expected f32[7], got bf16[7]");
  EXPECT_MESSAGE(TensorOptimizer({}, {}), ConfigError, "no tensors");
  EXPECT_MESSAGE(TensorOptimizer({o.values[0], o.values[0]}, {}), ConfigError, "two tensors named w");
  EXPECT_EQ(optimizer.applied(), 0);
  optimizer.step(o.gradients, {});  // and goes on
  EXPECT_EQ(optimizer.applied(), 1);
}

}  // namespace
}  // namespace shoal
