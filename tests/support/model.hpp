// What the tests of models share: a bound model with a stream of its own, tokens from a seed, gradients and values
// by logical name.
#pragma once
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shoal/core/random.hpp"
#include "shoal/models/model.hpp"
#include "shoal/ops/cross_entropy.hpp"
#include "shoal/shard/tree.hpp"

namespace shoal::test {

struct TestModel {
  explicit TestModel(const models::ModelConfig& config, std::uint64_t seed = 1)
      : allocator(make_caching_allocator({})),
        stream(Stream::create({}, allocator)),
        model(models::make_model(config)) {
    models::bind_parameters(*model, stream);
    models::initialize(*model, seed, stream);
  }
  nn::Microbatch microbatch(std::int64_t samples, std::int64_t first_sample = 0) const {
    nn::Microbatch mb;
    mb.seed = 7;
    mb.first_sample = first_sample;
    mb.samples = samples;
    mb.seq = model->config().seq;
    mb.stream = stream;
    return mb;
  }

  std::shared_ptr<Allocator> allocator;
  Stream stream;
  std::unique_ptr<models::LanguageModel> model;
};

// Ids below `vocab`, functions of seed and place; every `ignore_every`-th one is ignored (0: none).
inline Tensor test_tokens(const Stream& s, std::int64_t n, std::int64_t vocab, std::uint64_t seed,
                          std::int64_t ignore_every = 0, std::int64_t first = 0) {
  const Tensor t = Tensor::empty({n}, DType::i32, s);
  const RandomKey key{seed, Purpose::shuffle, 0, 0};
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t place = first + i;
    const bool ignored = ignore_every > 0 && place % ignore_every == ignore_every - 1;
    t.as<std::int32_t>()[i] =
        ignored ? ops::ignored_token : static_cast<std::int32_t>(key.bits(place) % vocab);
  }
  return t;
}

inline double total(const Tensor& loss) {
  double sum = 0;
  for (std::int64_t i = 0; i < loss.numel(); ++i) sum += loss.as<float>()[i];
  return sum;
}

using Named = std::map<std::string, std::vector<float>>;

// A stored tensor, its pieces one after another.
inline std::vector<float> dense(const Tensor& t) {
  std::vector<float> all;
  for (std::int64_t p = 0; p < t.dim(0); ++p) {
    const Tensor piece = t.select(p);
    all.insert(all.end(), piece.as<float>(), piece.as<float>() + piece.numel());
  }
  return all;
}

// `stored` picks a parameter's tensor: its value, or its gradient.
template <class F>
Named by_name(models::LanguageModel& model, F stored) {
  Named named;
  for (nn::Parameter* p : model.parameters()) {
    const std::vector<float> values = stored(*p);
    for (std::size_t i = 0; i < p->placement.logical.size(); ++i) {
      std::vector<float>& logical = named[p->placement.logical[i].name];
      logical.resize(p->placement.logical[i].shape.numel());
      shard::gather_logical(p->placement, static_cast<int>(i), values.data(), logical.data());
    }
  }
  return named;
}

inline Named values_by_name(models::LanguageModel& model) {
  return by_name(model, [](const nn::Parameter& p) { return dense(p.value); });
}

// The parts summed by the tree, as the bucket engine does.
inline Named gradients_by_name(models::LanguageModel& model) {
  return by_name(model, [](const nn::Parameter& p) {
    std::vector<std::vector<float>> parts;
    for (const Tensor& g : p.grad) parts.push_back(dense(g));
    shard::tree_reduce(p.parts, [&](std::int64_t a, std::int64_t b) {
      for (std::int64_t i = 0; i < p.numel(); ++i) parts[a][i] += parts[b][i];
    });
    return parts[0];
  });
}

inline double norm2(const std::vector<float>& v) {
  double s = 0;
  for (float x : v) s += double{x} * x;
  return std::sqrt(s);
}

inline double global_norm(const Named& named) {
  double s = 0;
  for (const auto& [name, v] : named) s += std::pow(norm2(v), 2);
  return std::sqrt(s);
}

inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double s = 0;
  for (std::size_t i = 0; i < a.size(); ++i) s += std::pow(double{a[i]} - b[i], 2);
  return std::sqrt(s);
}

// One step's loss (a sum) and gradients over `samples` samples in microbatches of `micro`.
inline double run_step(TestModel& t, std::int64_t samples, std::int64_t micro,
                       std::int64_t ignore_every = 0) {
  const models::ModelConfig& c = t.model->config();
  double loss = 0;
  for (std::int64_t first = 0; first < samples; first += micro) {
    nn::Microbatch mb = t.microbatch(micro, first);
    mb.accumulate = first > 0;
    mb.loss_scale_over_count = 1.0f / static_cast<float>(samples * c.seq);
    nn::Saved saved;
    const std::int64_t n = mb.tokens(), place = first * c.seq;
    loss += total(t.model->forward(test_tokens(t.stream, n, c.vocab, 11, 0, place),
                                   test_tokens(t.stream, n, c.vocab, 12, ignore_every, place), saved, mb));
    t.model->backward(saved, mb);
  }
  return loss;
}

inline models::ModelConfig tiny(models::ModelType type, std::int64_t tensor = 1) {
  models::ModelConfig c;
  c.type = type;
  c.layers = 2;
  c.hidden = 48;
  c.heads = 6;
  c.vocab = 101;
  c.seq = 12;
  c.tensor = tensor;
  if (type == models::ModelType::llama) {
    c.kv_heads = 2;
    c.ffn_hidden = 72;
    c.tie_embeddings = false;
  }
  return c;
}

}  // namespace shoal::test
