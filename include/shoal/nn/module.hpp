// A piece of a model with an explicit, tape-free backward.
//
// What forward saves for backward lives in a Saved of the caller's, one for each microbatch in flight, so that a
// pipeline can hold several. backward_input computes the input's gradient and keeps what backward_weight needs;
// backward_weight then adds to the parameters' gradients and says which are ready. backward does both, releasing
// every tensor at its last use and reporting gradients as early as they exist. The gradients of a norm come out
// of the same pass over memory as its input's gradient, and so belong to backward_input.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shoal/nn/context.hpp"
#include "shoal/nn/memory.hpp"

namespace shoal::nn {

// Tensors in the order in which a module saved them. Released as they are taken.
struct Saved {
  std::vector<Tensor> tensors;
  std::vector<Saved> children;
  std::int64_t nbytes() const;  // memory shared by several of the tensors is counted once
  Tensor take(std::size_t i) { return std::move(tensors[i]); }
};

class Module {
 public:
  virtual ~Module() = default;
  virtual const std::string& name() const = 0;
  virtual std::vector<Parameter*> parameters() = 0;  // in model order
  // x [tokens, hidden], kept in `saved` and not written. The result has memory of its own.
  virtual Tensor forward(const Tensor& x, Saved& saved, const Microbatch& mb) = 0;
  // dy is given away (std::move it: a handle kept by the caller keeps its memory, but not its values).
  virtual Tensor backward_input(Tensor dy, Saved& saved, const Microbatch& mb) = 0;
  virtual void backward_weight(Saved& saved, const Microbatch& mb) = 0;
  virtual Tensor backward(Tensor dy, Saved& saved, const Microbatch& mb) {
    Tensor dx = backward_input(std::move(dy), saved, mb);
    backward_weight(saved, mb);
    return dx;
  }
  // Bytes that forward leaves in `saved`, the input's included, for `samples` samples of `seq` tokens and activations
  // of that type.
  virtual std::int64_t saved_bytes(std::int64_t samples, std::int64_t seq, DType activations) const = 0;
  // Repeats the allocations and releases of forward and of backward; the input's memory is the caller's in
  // forward, and released in backward with the rest of `saved`.
  virtual void count_forward(MemoryMeter& meter, std::int64_t samples, std::int64_t seq) const = 0;
  virtual void count_backward(MemoryMeter& meter, std::int64_t samples, std::int64_t seq) const = 0;
};

}  // namespace shoal::nn
