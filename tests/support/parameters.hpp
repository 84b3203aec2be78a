// Parameters without a model, and gradients that are functions of the logical place: what the tests of the bucket
// engine and of the optimizers share.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shoal/nn/parameter.hpp"
#include "shoal/parallel/data/bucket_engine.hpp"
#include "shoal/shard/tree.hpp"

namespace shoal::test {

// Element i of a stored tensor, counted without the padding between its pieces.
inline float& element(const Tensor& t, std::int64_t i) {
  const std::int64_t piece = t.shape().tail().numel();
  return t.base<float>()[i / piece * t.leading_stride() + i % piece];
}

class Parameters {
 public:
  nn::Parameter& add(const std::string& name, nn::ParameterKind kind, const Shape& shape,
                     std::int64_t parts = 1) {
    auto p = std::make_unique<nn::Parameter>();
    p->name = name;
    p->kind = kind;
    p->shape = shape;
    p->parts = parts;
    p->placement = shape.rank() == 3 ? shard::Placement::rows(name, {shape[0] * shape[1], shape[2]}, shape[0])
                                     : shard::Placement::rows(name, {shape.numel()}, shape[0]);
    if (parts > 1 && kind == nn::ParameterKind::embedding) p->placement.partial_axes = {"data", "use"};
    owned_.push_back(std::move(p));
    return *owned_.back();
  }
  std::vector<nn::Parameter*> list() const {
    std::vector<nn::Parameter*> all;
    for (const auto& p : owned_) all.push_back(p.get());
    return all;
  }
  nn::Parameter& operator[](std::size_t i) const { return *owned_[i]; }
  std::size_t size() const { return owned_.size(); }

  // Sizes that are multiples of nothing, several parts, several pieces (of 512 and of 300 elements), an empty tensor,
  // one that is larger than a small bucket.
  static Parameters odd() {
    using enum nn::ParameterKind;
    Parameters p;
    p.add("embedding", embedding, {1, 70, 33}, 2);
    p.add("norm", norm, {1, 1}, 3);
    p.add("qkv", matrix, {3, 2, 256});
    p.add("empty", bias, {1, 0});
    p.add("bias", bias, {1, 257}, 2);
    p.add("weight", matrix, {1, 37, 11});
    p.add("large", matrix, {1, 101, 97});
    p.add("last", norm, {1, 256}, 3);
    p.add("padded", matrix, {3, 5, 60}, 2);
    return p;
  }

 private:
  std::vector<std::unique_ptr<nn::Parameter>> owned_;
};

// Gradient of element i of part k of parameter p in data shard v of a step: full mantissas and magnitudes over nine
// binary orders, so that another order of a sum gives other bits. exact: small integers, whose sums are exact.
struct Leaves {
  std::uint64_t step = 0;
  bool exact = false;

  float operator()(std::int64_t v, std::size_t p, std::int64_t k, std::int64_t i) const {
    std::uint64_t h = step;
    for (const std::uint64_t x : {static_cast<std::uint64_t>(v), static_cast<std::uint64_t>(p),
                                  static_cast<std::uint64_t>(k), static_cast<std::uint64_t>(i)}) {
      h = (h ^ x) * 0x9e3779b97f4a7c15u;
      h ^= h >> 29;
    }
    if (exact) return static_cast<float>(static_cast<int>(h % 17) - 8);
    const double mantissa = static_cast<double>(h >> 40) / 8388608.0 - 1.0;  // [-1, 1), 24 bits
    return static_cast<float>(mantissa * static_cast<double>(1 << ((h >> 8) % 9)));
  }

  // What R5 (c) to (e) say: the tree over data shards, then the tree over parts.
  float sum(std::int64_t shards, const nn::Parameter& parameter, std::size_t p, std::int64_t i) const {
    std::vector<float> parts;
    for (std::int64_t k = 0; k < parameter.parts; ++k) {
      std::vector<float> leaves;
      for (std::int64_t v = 0; v < shards; ++v) leaves.push_back((*this)(v, p, k, i));
      parts.push_back(tree(leaves));
    }
    return tree(parts);
  }
  template <class T>
  static T tree(std::vector<T> x) {
    shard::tree_reduce(static_cast<std::int64_t>(x.size()),
                       [&](std::int64_t i, std::int64_t j) { x[i] += x[j]; });
    return x[0];
  }
};

// A whole step of a rank but for what follows finish(): gradients of all its shards, from the last parameter to the
// first. The first microbatch of a shard writes another number, the second adds what makes it the leaf: exactly for
// exact leaves, else the second overwrites.
inline void backward(parallel::BucketEngine& engine, const Parameters& parameters, const Leaves& leaf) {
  for (std::int64_t s = 0; s < engine.local_shards(); ++s) {
    for (int microbatch = 0; microbatch < 2; ++microbatch) {
      nn::GradientSink* sink = engine.sink(s, microbatch == 1);
      for (std::size_t p = parameters.size(); p-- > 0;)
        for (std::int64_t k = 0; k < parameters[p].parts; ++k) {
          for (std::int64_t i = 0; i < parameters[p].numel(); ++i) {
            const float x = leaf(engine.first_shard() + s, p, k, i);
            float& g = element(parameters[p].grad[k], i);
            g = microbatch == 0 ? (leaf.exact ? x - 3.0f : 1e30f) : (leaf.exact ? g + 3.0f : x);
          }
          if (sink) sink->ready(parameters[p], k);
        }
    }
    engine.end_shard(s);
  }
}

}  // namespace shoal::test
