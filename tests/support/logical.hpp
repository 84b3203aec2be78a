// A small model's worth of logical tensors that can be stored in several ways (fused or not, in pieces or not), and
// their values and gradients by logical tensor: for the tests of optimizers.
#pragma once
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "shoal/nn/parameter.hpp"
#include "shoal/ops/cast.hpp"
#include "shoal/parallel/data/bucket_engine.hpp"

namespace shoal::test {

// One vector a logical tensor, in model order, row-major.
using Logicals = std::vector<std::vector<float>>;

class LogicalModel {
 public:
  // pieces: 1 or 3. The logical tensors, and their order, are always the same; nothing is a multiple of 256.
  explicit LogicalModel(bool fused, std::int64_t pieces) {
    using enum nn::ParameterKind;
    using shard::Placement;
    add("embedding", embedding, Placement::whole("embedding", {70, 33}));
    parameters_.back()->placement.partial_axes = {"use", "data"};
    const std::vector<shard::LogicalTensor> qkv = {{"attention.q", {48, 20}},
                                                   {"attention.k", {24, 20}},
                                                   {"attention.v", {24, 20}}},
                                            biases = {{"attention.q_bias", {48}}, {"attention.k_bias", {24}}};
    if (fused) {
      add("attention.qkv", matrix, Placement::fused_rows(qkv, pieces));
      add("attention.qk_bias", bias, Placement::fused_rows(biases, pieces));
    } else {
      for (const auto& t : qkv) add(t.name, matrix, Placement::rows(t.name, t.shape, pieces));
      for (const auto& t : biases) add(t.name, bias, Placement::rows(t.name, t.shape, pieces));
    }
    add("empty", bias, Placement::whole("empty", {0}));
    add("norm", norm, Placement::whole("norm", {257}));
    add("up", matrix, Placement::rows("up", {39, 20}, pieces));
    add("down", matrix, Placement::columns("down", {20, 39}, pieces));
    add("large", matrix, Placement::whole("large", {101, 97}));
    add("head", head, Placement::rows("head", {71, 20}, pieces, 72));
  }

  std::vector<nn::Parameter*> list() const {
    std::vector<nn::Parameter*> all;
    for (const auto& p : parameters_) all.push_back(p.get());
    return all;
  }
  struct Entry {
    nn::Parameter* parameter;
    int tensor;
    const shard::LogicalTensor& info() const { return parameter->placement.logical[tensor]; }
  };
  std::vector<Entry> logical() const {
    std::vector<Entry> all;
    for (const auto& p : parameters_)
      for (int t = 0; t < static_cast<int>(p->placement.logical.size()); ++t) all.push_back({p.get(), t});
    return all;
  }
  // Full mantissas, the same for any way to store them.
  Logicals random(std::uint64_t seed, double sigma = 1.0) const {
    Logicals all;
    for (const Entry& e : logical()) {
      std::mt19937_64 engine(seed * 1000 + all.size());
      std::normal_distribution<double> normal(0.0, sigma);
      all.emplace_back(static_cast<std::size_t>(e.info().shape.numel()));
      for (float& x : all.back()) x = static_cast<float>(normal(engine));
    }
    return all;
  }

 private:
  void add(const std::string& name, nn::ParameterKind kind, shard::Placement placement) {
    auto p = std::make_unique<nn::Parameter>();
    p->name = name;
    p->kind = kind;
    const auto pieces = static_cast<std::int64_t>(placement.pieces.size());
    p->shape = {pieces, placement.piece_numel};
    p->placement = std::move(placement);
    parameters_.push_back(std::move(p));
  }
  std::vector<std::unique_ptr<nn::Parameter>> parameters_;
};

// f(index, placement, tensor, where the parameter's first piece begins, how far its pieces lie apart).
template <class F>
void for_each_logical(const parallel::FlatParameters& flat, F&& f) {
  std::size_t index = 0, segment = 0;
  for (const nn::Parameter* p : flat.parameters) {
    const shard::Segment& first = flat.layout.segments[segment];
    for (int t = 0; t < static_cast<int>(p->placement.logical.size()); ++t)
      f(index++, p->placement, t, first.offset, first.padded());
    segment += p->placement.pieces.size();
  }
}

// Reads a tensor [layout.numel] of any type; writes one, where padding becomes 0.
inline Logicals read(const parallel::FlatParameters& flat, const Tensor& from, const Stream& stream) {
  const Tensor wide = Tensor::empty(from.shape(), DType::f32, stream);
  ops::convert(stream, from, wide);
  stream.synchronize();
  Logicals all;
  for_each_logical(flat,
                   [&](std::size_t, const shard::Placement& p, int t, std::int64_t at, std::int64_t stride) {
                     all.emplace_back(static_cast<std::size_t>(p.logical[t].shape.numel()));
                     shard::gather_logical(p, t, wide.as<float>() + at, all.back().data(), stride);
                   });
  return all;
}
inline void write(const parallel::FlatParameters& flat, const Logicals& values, const Tensor& to,
                  const Stream& stream) {
  const Tensor wide = Tensor::zeros(to.shape(), DType::f32, stream);
  stream.synchronize();
  for_each_logical(
      flat, [&](std::size_t i, const shard::Placement& p, int t, std::int64_t at, std::int64_t stride) {
        shard::scatter_logical(p, t, values[i].data(), wide.as<float>() + at, stride);
      });
  ops::convert(stream, wide, to);
  stream.synchronize();
}

}  // namespace shoal::test
