// The two halves of a block's backward, and what is left in Saved.
#include <gtest/gtest.h>

#include <functional>

#include "shoal/nn/attention.hpp"
#include "shoal/nn/mlp.hpp"
#include "support/reference.hpp"

namespace shoal {
namespace {

constexpr std::int64_t samples = 2, seq = 9, hidden = 24;

std::unique_ptr<nn::Module> attention(std::int64_t tensor, bool llama) {
  nn::AttentionConfig c;
  c.name = "attn";
  c.hidden = hidden;
  c.heads = 6;
  c.kv_heads = llama ? 2 : 6;
  c.tensor = tensor;
  c.bias = !llama;
  c.dropout = llama ? 0 : 0.2;
  if (!llama)
    return std::make_unique<nn::AttentionBlock>(c, nn::layer_norm("ln", hidden, 1e-5, tensor), nullptr);
  return std::make_unique<nn::AttentionBlock>(c, nn::rms_norm("ln", hidden, 1e-5, tensor),
                                              std::make_shared<nn::Rotary>(seq, 4, 1e4));
}

std::unique_ptr<nn::Module> mlp(std::int64_t tensor, bool llama) {
  const nn::MlpConfig c{"mlp", hidden, 36, tensor, llama ? 0.0 : 0.2, 0};
  if (llama) return std::make_unique<nn::SwigluMlpBlock>(c, nn::rms_norm("ln", hidden, 1e-5, tensor));
  return std::make_unique<nn::GeluMlpBlock>(c, nn::layer_norm("ln", hidden, 1e-5, tensor));
}

struct Result {
  Tensor y, dx;
  std::vector<Tensor> grads;
};

class Blocks : public ::testing::Test {
 protected:
  Result run(nn::Module& module, const Tensor& x, const Tensor& dy, bool split, bool accumulate) {
    nn::Microbatch mb;
    mb.seed = 3;
    mb.samples = samples;
    mb.seq = seq;
    mb.stream = s;
    mb.accumulate = accumulate;
    nn::Saved saved;
    Result r;
    r.y = module.forward(x, saved, mb);
    EXPECT_EQ(allocated(saved), module.saved_bytes(samples, seq, DType::f32));
    const Tensor given = test::clone(s, dy);
    if (split) {
      r.dx = module.backward_input(given, saved, mb);
      module.backward_weight(saved, mb);
    } else {
      r.dx = module.backward(given, saved, mb);
    }
    EXPECT_EQ(saved.nbytes(), 0) << "everything is released";
    for (nn::Parameter* p : module.parameters())
      for (const Tensor& g : p->grad) r.grads.push_back(test::clone(s, g));
    return r;
  }
  static std::int64_t allocated(const nn::Saved& saved) {
    std::int64_t n = 0;
    for (const Tensor& t : saved.tensors) n += nn::MemoryMeter::rounded(t.numel());
    return n;
  }
  void bind(nn::Module& module) {
    for (nn::Parameter* p : module.parameters()) {
      p->value = test::random_tensor(s, p->shape, random, 0.3);
      for (std::int64_t part = 0; part < p->parts; ++part) p->grad.push_back(test::filled(s, p->shape, NAN));
    }
  }
  Stream s = Stream::create({});
  test::Random random;
};

TEST_F(Blocks, SplitBackwardGivesTheBitsOfTheWhole) {
  for (bool llama : {false, true}) {
    for (std::int64_t tensor : {1, 2, 3}) {
      for (const auto& make : {attention, mlp}) {
        const std::unique_ptr<nn::Module> module = make(tensor, llama);
        bind(*module);
        const Tensor x = test::random_tensor(s, {samples * seq, hidden}, random);
        const Tensor dy = test::random_tensor(s, {samples * seq, hidden}, random);
        const Result whole = run(*module, x, dy, /*split=*/false, /*accumulate=*/false);
        const Result split = run(*module, x, dy, /*split=*/true, /*accumulate=*/false);
        EXPECT_TRUE(test::same_bits(whole.y, split.y));
        EXPECT_TRUE(test::same_bits(whole.dx, split.dx));
        for (std::size_t i = 0; i < whole.grads.size(); ++i) {
          EXPECT_TRUE(test::same_bits(whole.grads[i], split.grads[i]));
          EXPECT_GT(test::norm2(test::values(whole.grads[i])), 0) << "overwritten, not NaN";
        }
        // Accumulation adds the same once more.
        const Result twice = run(*module, x, dy, /*split=*/true, /*accumulate=*/true);
        for (std::size_t i = 0; i < whole.grads.size(); ++i) {
          std::vector<double> want = test::values(whole.grads[i]);
          for (double& v : want) v *= 2;
          EXPECT_TRUE(test::close(twice.grads[i], want, {}));
        }
      }
    }
  }
}

}  // namespace
}  // namespace shoal
