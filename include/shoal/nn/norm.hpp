// Normalisation layers. Like the linear layers they keep nothing between calls.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shoal/nn/context.hpp"

namespace shoal::nn {

class Norm {
 public:
  virtual ~Norm() = default;
  virtual const std::string& name() const = 0;
  virtual std::vector<Parameter*> parameters() = 0;
  virtual int statistics() const = 0;  // f32 tensors [M] that forward writes: mean and rstd, or rstd alone
  // Elements that backward takes to work in, and gives back.
  virtual std::int64_t backward_scratch(std::int64_t tokens) const = 0;
  // x [M, hidden] -> y [M, hidden]; appends the statistics to `saved`.
  virtual Tensor forward(const Tensor& x, std::vector<Tensor>& saved, const Microbatch& mb) const = 0;
  // Writes dx over dy, and the parameters' gradients by token shards (R5 d); `statistics` points at the first of
  // them. dres, where defined, is the gradient that bypasses the norm, and is added to dx.
  virtual void backward(const Tensor& dy, const Tensor& x, const Tensor* statistics, const Tensor& dres,
                        const Microbatch& mb) = 0;
};

// Weight and bias [1, hidden], with one gradient for each of `token_shards`.
std::unique_ptr<Norm> layer_norm(const std::string& name, std::int64_t hidden, double eps,
                                 std::int64_t token_shards);
// Weight alone.
std::unique_ptr<Norm> rms_norm(const std::string& name, std::int64_t hidden, double eps,
                               std::int64_t token_shards);

}  // namespace shoal::nn
