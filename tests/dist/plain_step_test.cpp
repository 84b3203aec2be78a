// Whole training steps in reproducible mode, on several ranks, have the bits of the plain reference: loss, gradient
// norm and every parameter.
#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <random>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/ops/cross_entropy.hpp"
#include "shoal/optim/optimizer.hpp"
#include "support/plain/step.hpp"

namespace shoal {
namespace {

constexpr std::int64_t shards = 6, global_batch = 12, micro_batch = 1, steps = 3;
constexpr double lr = 0.01, clip = 0.5;

models::ModelConfig config(models::ModelType type, std::int64_t tensor) {
  models::ModelConfig c;
  c.type = type;
  c.layers = 2;
  c.hidden = 64;
  c.heads = 4;
  c.kv_heads = type == models::ModelType::llama ? 2 : 0;
  c.ffn_hidden = 1024;
  c.vocab = 60;
  c.seq = 20;
  c.dropout = type == models::ModelType::gpt ? 0.1 : 0.0;
  c.tie_embeddings = type == models::ModelType::gpt;
  c.tensor = tensor;
  return c;
}

struct Data {
  std::vector<std::int32_t> tokens, targets;
};
std::vector<Data> draw(const models::ModelConfig& c) {
  std::mt19937 random(17);
  std::vector<Data> all(steps);
  for (Data& d : all)
    for (std::int64_t t = 0; t < global_batch * c.seq; ++t) {
      d.tokens.push_back(static_cast<std::int32_t>(random() % c.vocab));
      d.targets.push_back(t % 37 == 3 ? ops::ignored_token : static_cast<std::int32_t>(random() % c.vocab));
    }
  return all;
}

optim::OptimizerConfig adamw() {
  optim::OptimizerConfig o;
  o.beta2 = 0.99;
  o.weight_decay = 0.1;
  return o;
}

// What the library computes on one rank of `comm`, checked against the reference's parameters and norms.
void run(const std::shared_ptr<Communicator>& comm, const models::ModelConfig& c, int zero,
         const std::vector<plain::Trainer::Result>& expected, const plain::Trainer& reference) {
  const Stream stream = Stream::create({}, make_caching_allocator({}));
  const auto model = models::make_model(c);
  parallel::BucketOptions options;
  options.reproducible = true;
  options.data_shards = shards;
  options.zero = zero;
  options.bucket_bytes = 40000;
  parallel::BucketEngine engine(model->parameters(), comm, options, stream);
  models::initialize(*model, 7, stream);
  const auto optimizer = optim::make_optimizer(adamw(), engine.flat(), stream);
  const std::vector<Data> data = draw(c);
  for (std::int64_t s = 0; s < steps; ++s) {
    std::int64_t count = 0;
    for (std::int32_t t : data[s].targets) count += t != ops::ignored_token;
    engine.begin_step();
    for (std::int64_t v = 0; v < engine.local_shards(); ++v) {
      const std::int64_t begin = (engine.first_shard() + v) * global_batch / shards,
                         n = global_batch / shards;
      for (std::int64_t first = begin; first < begin + n; first += micro_batch) {
        nn::Microbatch mb;
        mb.seed = 3;
        mb.batch = s;
        mb.first_sample = first;
        mb.samples = micro_batch;
        mb.seq = c.seq;
        mb.accumulate = first > begin;
        mb.loss_scale_over_count = static_cast<float>(1.0 / static_cast<double>(count));
        mb.stream = stream;
        mb.sink = engine.sink(v, first + micro_batch == begin + n);
        auto part = [&](const std::vector<std::int32_t>& all) {
          return Tensor::from_blob(const_cast<std::int32_t*>(&all[first * c.seq]), {micro_batch * c.seq},
                                   DType::i32, {});
        };
        nn::Saved saved;
        model->forward(part(data[s].tokens), part(data[s].targets), saved, mb);
        model->backward(saved, mb);
      }
      engine.end_shard(v);
    }
    engine.finish();
    const double norm = optim::grad_norm(engine.flat(), stream);
    EXPECT_EQ(norm, expected[s].grad_norm)
        << "step " << s << " of rank " << comm->rank() << " of " << comm->size();
    optimizer->step(stream, lr, optim::clip_factor(norm, clip));
    engine.publish();
  }
  for (const nn::Parameter* p : model->parameters())
    for (std::int64_t k = 0; k < p->pieces(); ++k) {
      const Tensor piece = p->value.select(k);
      EXPECT_EQ(std::memcmp(piece.as<float>(), &reference.model.values.at(p->name)[k * piece.numel()],
                            piece.nbytes()),
                0)
          << p->name << ", piece " << k << ", after " << steps << " steps, rank " << comm->rank() << " of "
          << comm->size();
    }
}

class PlainStep : public testing::TestWithParam<std::tuple<models::ModelType, int>> {};

TEST_P(PlainStep, EveryRankCountAndStageHasItsBits) {
  const auto [type, tensor] = GetParam();
  const models::ModelConfig c = config(type, tensor);
  const auto model = models::make_model(c);
  const Stream stream = Stream::create({});
  models::bind_parameters(*model, stream);
  models::initialize(*model, 7, stream);
  plain::Trainer reference(*model, {shards, global_batch, micro_batch, 3, clip, lr}, adamw(), false);
  std::vector<plain::Trainer::Result> expected;
  const std::vector<Data> data = draw(c);
  for (std::int64_t s = 0; s < steps; ++s)
    expected.push_back(reference.step(s, data[s].tokens, data[s].targets));
  EXPECT_GT(expected[0].grad_norm, clip);  // or clipping would not be seen
  for (int ranks : {1, 2, 3, 6})
    for (int zero : {0, 1})
      run_local(ranks, [&](std::shared_ptr<Communicator> comm) { run(comm, c, zero, expected, reference); });
}

INSTANTIATE_TEST_SUITE_P(Models, PlainStep,
                         testing::Combine(testing::Values(models::ModelType::gpt, models::ModelType::llama),
                                          testing::Values(1, 4)));

}  // namespace
}  // namespace shoal
