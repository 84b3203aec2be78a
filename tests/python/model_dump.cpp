// Writes one step of a small model to a safetensors file, by logical names, for torch_reference_test.py:
//   model_dump FILE gpt|llama TENSOR_PIECES TIE_EMBEDDINGS
// value.NAME and grad.NAME of every tensor; tokens, targets [samples, seq]; loss [samples, seq].
// The gradient is that of the mean loss over valid tokens.
#include <cstdio>
#include <string>

#include "shoal/checkpoint/safetensors.hpp"
#include "support/model.hpp"

namespace {

using namespace shoal;

models::ModelConfig config(const std::string& type, std::int64_t tensor, bool tied) {
  models::ModelConfig c;
  c.layers = 2;
  c.hidden = 48;
  c.vocab = 101;
  c.seq = 33;
  c.tensor = tensor;
  c.tie_embeddings = tied;
  if (type == "gpt") {
    c.heads = 3;
  } else {
    c.type = models::ModelType::llama;
    c.heads = 4;
    c.kv_heads = 2;
    c.ffn_hidden = 132;
  }
  return c;
}

// Values far enough from the initial ones that no term of the mathematics is small.
void perturb(models::LanguageModel& model) {
  std::uint32_t index = 0;
  for (nn::Parameter* p : model.parameters())
    for (std::size_t i = 0; i < p->placement.logical.size(); ++i, ++index) {
      std::vector<float> logical(p->placement.logical[i].shape.numel());
      shard::gather_logical(p->placement, static_cast<int>(i), p->value.base<float>(), logical.data(),
                            p->value.leading_stride());
      const RandomKey key{3, Purpose::shuffle, 0, index};
      for (std::size_t e = 0; e < logical.size(); ++e) logical[e] += static_cast<float>(0.1 * key.normal(e));
      shard::scatter_logical(p->placement, static_cast<int>(i), logical.data(), p->value.base<float>(),
                             p->value.leading_stride());
    }
}

void dump(const std::string& path, const models::ModelConfig& c) {
  test::TestModel t(c);
  perturb(*t.model);
  const std::int64_t samples = 3, ignore_every = 7;
  nn::Microbatch mb = t.microbatch(samples);
  const Tensor tokens = test::test_tokens(t.stream, mb.tokens(), c.vocab, 1);
  const Tensor targets = test::test_tokens(t.stream, mb.tokens(), c.vocab, 2, ignore_every);
  mb.loss_scale_over_count = 1.0f / static_cast<float>(mb.tokens() - mb.tokens() / ignore_every);
  nn::Saved saved;
  const Tensor loss = t.model->forward(tokens, targets, saved, mb);
  t.model->backward(saved, mb);

  const test::Named values = test::values_by_name(*t.model), gradients = test::gradients_by_name(*t.model);
  std::vector<checkpoint::NamedArray> arrays;
  const auto add = [&](const std::string& name, DType dtype, const Shape& shape, const void* data) {
    checkpoint::NamedArray& array = arrays.emplace_back();
    array.info.name = name;
    array.info.dtype = dtype;
    array.info.shape = shape;
    array.data = data;
  };
  for (nn::Parameter* p : t.model->parameters())
    for (const shard::LogicalTensor& l : p->placement.logical) {
      add("value." + l.name, DType::f32, l.shape, values.at(l.name).data());
      add("grad." + l.name, DType::f32, l.shape, gradients.at(l.name).data());
    }
  add("tokens", DType::i32, {samples, c.seq}, tokens.data());
  add("targets", DType::i32, {samples, c.seq}, targets.data());
  add("loss", DType::f32, {samples, c.seq}, loss.data());
  checkpoint::write_safetensors(path, arrays);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: model_dump FILE gpt|llama TENSOR_PIECES TIE_EMBEDDINGS\n");
    return 2;
  }
  try {
    dump(argv[1], config(argv[2], std::stoll(argv[3]), std::string(argv[4]) == "1"));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "model_dump: %s\n", e.what());
    return 1;
  }
  return 0;
}
