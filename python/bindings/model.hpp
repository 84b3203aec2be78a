// A model with memory of its own and a stream, as Python holds it.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "shoal/models/model.hpp"

namespace shoal::python {

struct Model {
  std::unique_ptr<models::LanguageModel> model;
  Stream stream;

  Model(const models::ModelConfig& config, std::uint64_t seed);
  // tokens and targets: i32 [samples, seq]. Throws ShapeError, naming both, unless they are.
  nn::Microbatch microbatch(const Tensor& tokens, const Tensor* targets, bool training) const;
  std::int64_t valid(const Tensor& targets) const;  // how many targets count
};

// The sum of the losses of one microbatch; with a sink or without, gradients are those of sum / count.
double forward_backward(Model& m, const Tensor& tokens, const Tensor& targets, nn::Microbatch mb);

}  // namespace shoal::python
