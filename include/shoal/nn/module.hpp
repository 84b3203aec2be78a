// A piece of a model with an explicit, tape-free backward.
//
// What forward saves for backward lives in a Saved of the caller's, one for each microbatch in flight, so that a
// pipeline can hold several. backward_input computes the input's gradient and keeps what backward_weight needs;
// backward_weight then adds to the parameters' gradients and says which are ready. backward does both.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "shoal/nn/context.hpp"

namespace shoal::nn {

// Tensors in the order in which a module saved them. Released as they are taken.
struct Saved {
  std::vector<Tensor> tensors;
  std::vector<Saved> children;
  std::int64_t nbytes() const;
};

class Module {
 public:
  virtual ~Module() = default;
  virtual const std::string& name() const = 0;
  virtual std::vector<Parameter*> parameters() = 0;  // in model order
  virtual Tensor forward(const Tensor& x, Saved& saved, const Microbatch& mb) = 0;
  virtual Tensor backward_input(const Tensor& dy, Saved& saved, const Microbatch& mb) = 0;
  virtual void backward_weight(Saved& saved, const Microbatch& mb) = 0;
  Tensor backward(const Tensor& dy, Saved& saved, const Microbatch& mb) {
    Tensor dx = backward_input(dy, saved, mb);
    backward_weight(saved, mb);
    return dx;
  }
  // Bytes that forward leaves in `saved` for a microbatch of `tokens` tokens in samples of `seq`.
  virtual std::int64_t saved_bytes(std::int64_t tokens, std::int64_t seq) const = 0;
};

}  // namespace shoal::nn
