// The library's GPT and Llama give the bits of the plain reference, which executes docs/numerics.md literally.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "shoal/core/threads.hpp"
#include "shoal/models/model.hpp"
#include "shoal/ops/cross_entropy.hpp"
#include "src/ops/matmul_hook.hpp"
#include "support/plain/model.hpp"

namespace shoal {
namespace {

struct Case {
  const char* name;
  models::ModelConfig config;
  std::int64_t samples;
  ops::Product product = ops::Product::library;
};

models::ModelConfig gpt(std::int64_t tensor, bool tied, double dropout) {
  models::ModelConfig c;
  c.layers = 2;
  c.hidden = 48;
  c.heads = 4;
  c.vocab = 101;
  c.seq = 70;
  c.dropout = dropout;
  c.tie_embeddings = tied;
  c.tensor = tensor;
  return c;
}

models::ModelConfig llama(std::int64_t tensor, std::int64_t kv_heads) {
  models::ModelConfig c;
  c.type = models::ModelType::llama;
  c.layers = 2;
  c.hidden = 48;
  c.heads = 8;
  c.kv_heads = kv_heads;
  c.ffn_hidden = 96;
  c.vocab = 101;
  c.seq = 70;
  c.tie_embeddings = false;
  c.tensor = tensor;
  return c;
}

class PlainReference : public testing::TestWithParam<Case> {};

TEST_P(PlainReference, EveryLossAndGradientHasItsBits) {
  const Case& test = GetParam();
  // An adversarial product sums in an order drawn from the call: the same bits mean the same call (R2).
  ops::set_product(test.product, 23);
  const bool loop = test.product == ops::Product::loop;
  const Stream stream = Stream::create({});
  const auto model = models::make_model(test.config);
  models::bind_parameters(*model, stream);
  models::initialize(*model, 7, stream);
  std::mt19937 random(11);
  // Norms and biases away from 1 and 0, or errors in them would not show.
  for (nn::Parameter* p : model->parameters())
    if (p->kind == nn::ParameterKind::norm || p->kind == nn::ParameterKind::bias)
      for (std::int64_t i = 0; i < p->numel(); ++i)
        p->value.as<float>()[i] += std::uniform_real_distribution<float>(-0.2f, 0.2f)(random);

  const plain::Model reference(*model, loop);
  plain::Grads expected = reference.zero_grads();
  const std::int64_t seq = test.config.seq, tokens = test.samples * seq;
  for (int m = 0; m < 2; ++m) {  // two microbatches: the second is added to the first
    plain::Batch b;
    b.seed = 3;
    b.number = 5;
    b.first_sample = 2 + m * test.samples;
    b.samples = test.samples;
    b.scale = 1.0f / static_cast<float>(2 * tokens - 3);
    b.accumulate = m > 0;
    for (std::int64_t t = 0; t < tokens; ++t) {
      b.tokens.push_back(static_cast<std::int32_t>(random() % test.config.vocab));
      b.targets.push_back(t % 31 == 5 ? ops::ignored_token
                                      : static_cast<std::int32_t>(random() % test.config.vocab));
    }
    const plain::Vec loss = reference.microbatch(b, expected);

    nn::Microbatch mb;
    mb.seed = b.seed;
    mb.batch = b.number;
    mb.first_sample = b.first_sample;
    mb.samples = b.samples;
    mb.seq = seq;
    mb.accumulate = b.accumulate;
    mb.loss_scale_over_count = b.scale;
    mb.stream = stream;
    nn::Saved saved;
    const Tensor got =
        model->forward(Tensor::from_blob(b.tokens.data(), {tokens}, DType::i32, {}),
                       Tensor::from_blob(b.targets.data(), {tokens}, DType::i32, {}), saved, mb);
    ASSERT_EQ(std::memcmp(got.as<float>(), loss.data(), tokens * sizeof(float)), 0)
        << "losses of microbatch " << m;
    model->backward(saved, mb);
    for (nn::Parameter* p : model->parameters())
      for (std::int64_t part = 0; part < p->parts; ++part) {
        const float *a = p->grad[part].as<float>(), *e = expected.at(p->name)[part].data();
        for (std::int64_t i = 0; i < p->numel(); ++i)
          ASSERT_EQ(std::memcmp(a + i, e + i, sizeof(float)), 0)
              << "microbatch " << m << ", " << p->name << ", part " << part << ", element " << i
              << ": library " << a[i] << ", reference " << e[i];
      }
  }
  ops::set_product(ops::Product::library);
}

INSTANTIATE_TEST_SUITE_P(
    Models, PlainReference,
    testing::Values(
        Case{"gpt", gpt(1, true, 0.1), 2},
        Case{"gpt_adversarial", gpt(1, true, 0.1), 2, ops::Product::adversarial},
        Case{"gpt_loop", gpt(1, true, 0.1), 2, ops::Product::loop},
        Case{"gpt_pieces_2", gpt(2, true, 0.1), 2},
        Case{"gpt_pieces_4_untied_loop", gpt(4, false, 0.0), 2, ops::Product::loop},
        Case{"llama", llama(1, 8), 2}, Case{"llama_grouped_loop", llama(1, 2), 2, ops::Product::loop},
        Case{"llama_pieces_2", llama(2, 4), 2},
        // More query pieces than key/value heads: k and v are stored apart and their sums cross pieces.
        Case{"llama_pieces_4_kv_2", llama(4, 2), 2},
        Case{"llama_pieces_4_kv_2_adversarial", llama(4, 2), 2, ops::Product::adversarial},
        Case{"llama_pieces_4_kv_2_loop", llama(4, 2), 2, ops::Product::loop}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace shoal
