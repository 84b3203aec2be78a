// Models whose pieces are padded to multiples of 256 elements, as the bucket engine binds them, give the bits of the
// same models in memory without gaps.
#include <gtest/gtest.h>

#include <cstring>

#include "shoal/checkpoint/weights.hpp"
#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"
#include "shoal/parallel/data/bucket_engine.hpp"
#include "support/expect_message.hpp"
#include "support/model.hpp"
#include "support/temp_dir.hpp"

namespace shoal {
namespace {

using models::ModelType;
using test::Named;
using test::TestModel;
using test::tiny;

constexpr std::int64_t pieces = 3;  // of 101 words (padded to 102), 48 columns, 6 heads, 2 key/value heads

// A model with a bucket engine of one rank.
struct Bound {
  explicit Bound(const models::ModelConfig& c, std::uint64_t seed = 1)
      : test(c, seed), engine(test.model->parameters(), make_self(), options(), test.stream) {}
  static parallel::BucketOptions options() { return {.reproducible = true, .data_shards = 2}; }
  models::LanguageModel& model() { return *test.model; }

  TestModel test;
  parallel::BucketEngine engine;
};

void expect_bits(const std::vector<float>& a, const std::vector<float>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << what;
}
void expect_bits(const Named& a, const Named& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, v] : a) expect_bits(v, b.at(name), name);
}

// What lies between the pieces, and behind the last one.
void expect_zero_padding(const parallel::FlatParameters& flat) {
  for (const shard::Segment& s : flat.layout.segments)
    for (std::int64_t i = s.numel; i < s.padded(); ++i) {
      ASSERT_EQ(flat.values.as<float>()[s.offset + i], 0.0f) << flat.parameters[s.tensor]->name;
      ASSERT_EQ(flat.grads.as<float>()[s.offset + i], 0.0f) << flat.parameters[s.tensor]->name;
    }
}

class ModelPieces : public testing::TestWithParam<ModelType> {};

TEST_P(ModelPieces, AStepAndItsLogitsHaveTheSameBits) {
  TestModel plain(tiny(GetParam(), pieces));
  Bound bound(tiny(GetParam(), pieces));
  int apart = 0;
  for (const nn::Parameter* p : bound.model().parameters()) apart += !p->value.is_dense();
  EXPECT_GE(apart, 4);
  expect_bits(test::values_by_name(bound.model()), test::values_by_name(*plain.model));
  EXPECT_EQ(test::run_step(bound.test, 4, 2, 5), test::run_step(plain, 4, 2, 5));
  expect_bits(test::gradients_by_name(bound.model()), test::gradients_by_name(*plain.model));
  expect_zero_padding(bound.engine.flat());

  const Tensor tokens = test::test_tokens(plain.stream, 24, 101, 1);
  expect_bits(test::dense(bound.model().logits(tokens, bound.test.microbatch(2))),
              test::dense(plain.model->logits(tokens, plain.microbatch(2))), "logits");
  const auto decoder = bound.model().decoder(bound.test.stream), want = plain.model->decoder(plain.stream);
  for (std::int32_t token : {7, 0, 100}) {
    const Tensor a = decoder->step(token), b = want->step(token);
    expect_bits({a.as<float>(), a.as<float>() + 101}, {b.as<float>(), b.as<float>() + 101}, "decoder");
  }
  models::initialize(*plain.model, 9, plain.stream);
  models::initialize(bound.model(), 9, bound.test.stream);
  expect_bits(test::values_by_name(bound.model()), test::values_by_name(*plain.model));
  expect_zero_padding(bound.engine.flat());
}

TEST_P(ModelPieces, WeightsAreSavedAndReadAroundThePadding) {
  const test::TempDir dir;
  TestModel plain(tiny(GetParam(), 1), 4);
  Bound bound(tiny(GetParam(), pieces), 4), other(tiny(GetParam(), pieces), 5);
  checkpoint::save_weights(dir / "plain", plain.model->parameters());
  checkpoint::save_weights(dir / "bound", bound.model().parameters());
  if (GetParam() == ModelType::gpt) {  // q, k and v are drawn in the same order
    EXPECT_EQ(test::read_file(dir / "plain"), test::read_file(dir / "bound"));
  }
  checkpoint::load_weights(dir / "bound", other.model().parameters());
  expect_bits(test::values_by_name(other.model()), test::values_by_name(bound.model()));
  expect_zero_padding(other.engine.flat());
}

TEST_P(ModelPieces, MemoryIsPredictedToTheByte) {
  TestModel t(tiny(GetParam(), pieces));
  const auto comm = make_self();
  const auto before = comm->allocator()->stats().in_use;
  const std::vector<nn::Parameter*> parameters = t.model->parameters();
  const parallel::BucketEngine engine(parameters, comm, Bound::options(), t.stream);
  EXPECT_EQ(comm->allocator()->stats().in_use - before,
            parallel::BucketEngine::value_bytes(parameters, 1, Bound::options()) +
                parallel::BucketEngine::predicted_bytes(parameters, 1, 0, Bound::options()));
  nn::Microbatch mb = t.microbatch(2);
  const Tensor tokens = test::test_tokens(t.stream, mb.tokens(), 101, 1);
  const std::int64_t start = t.allocator->stats().in_use;
  t.allocator->reset_peak();
  {
    nn::Saved saved;
    const Tensor loss = t.model->forward(tokens, tokens, saved, mb);
    t.model->backward(saved, mb);
  }
  EXPECT_EQ(t.allocator->stats().peak - start, t.model->activation_peak_bytes(2));
}

INSTANTIATE_TEST_SUITE_P(Types, ModelPieces, testing::Values(ModelType::gpt, ModelType::llama));

}  // namespace
}  // namespace shoal
