// What one microbatch carries through forward and backward.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "shoal/core/tensor.hpp"
#include "shoal/nn/parameter.hpp"
#include "shoal/ops/dropout.hpp"

namespace shoal::nn {

// Watches logical tensors for SHOAL_CHECK=bits and for the search of the first NaN: called with every
// activation and activation gradient, once the work that makes it has been given to the microbatch's stream and
// before any that overwrites it.
// kind: "activation" or "gradient". The tensor may be piece-major.
using Observer = std::function<void(const std::string& kind, const std::string& layer, const Tensor& t)>;

struct Microbatch {
  std::uint64_t seed = 0;         // of dropout
  std::uint64_t batch = 0;        // batch number, skipped ones counted
  std::int64_t first_sample = 0;  // index in the global batch
  std::int64_t samples = 0;
  std::int64_t seq = 0;
  // Of activations and their gradients (compute_dtype): f32, bf16 or f16. Products round their operands to it and
  // accumulate in FP32; what stays f32 is in docs/numerics.md.
  DType dtype = DType::f32;
  bool training = true;             // dropout acts
  bool accumulate = false;          // gradients are added to (false: overwritten; the first of a data shard)
  float loss_scale_over_count = 1;  // multiplies the logit gradient (R11)
  Stream stream;
  GradientSink* sink = nullptr;  // set in the microbatch after which gradients are reduced
  Observer observer;             // empty: nothing is watched

  std::int64_t tokens() const { return samples * seq; }
  ops::Dropout dropout(double p, Purpose purpose, std::uint32_t layer) const {
    return {training ? p : 0.0, {seed, purpose, batch, layer}, first_sample};
  }
  // An activation, or the gradient of one; and what has a type of its own, such as statistics and sums (f32).
  Tensor activation(const Shape& shape) const { return Tensor::empty(shape, dtype, stream); }
  Tensor empty(const Shape& shape, DType type = DType::f32) const {
    return Tensor::empty(shape, type, stream);
  }
  void ready(Parameter& p, std::int64_t part = 0) const {
    if (sink) sink->ready(p, part);
  }
  // The layer's name is `layer` and, where given, "." and `part`; it is put together only when watched.
  void observe(const char* kind, const std::string& layer, const Tensor& t) const {
    if (observer) observer(kind, layer, t);
  }
  void observe(const char* kind, const std::string& layer, const char* part, const Tensor& t) const {
    if (observer) observer(kind, layer + "." + part, t);
  }
};

}  // namespace shoal::nn
