// Optimizers over flat parameters.
//
// For parameters of one's own, without data parallelism, the flat buffers come from an engine of one rank:
//   parallel::BucketEngine engine(parameters, make_self(), {}, stream);  // gives value and grad to each
//   auto optimizer = optim::make_optimizer({}, engine.flat(), stream);
//   ... fill the gradients ...
//   optimizer->step(stream, lr, optim::clip_factor(optim::grad_norm(engine.flat(), stream), 1.0));
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shoal/parallel/data/bucket_engine.hpp"

namespace shoal::optim {

// Which parameters decay: a visible list, first match wins. Default: matrices decay, the rest does not.
struct ParameterGroup {
  std::string name;  // "matrices"
  std::vector<nn::ParameterKind> kinds;
  double weight_decay = 0.0;
};
std::vector<ParameterGroup> default_groups(double weight_decay, bool decay_embeddings = false);

struct OptimizerConfig {
  std::string type = "adamw";  // adamw | sgd
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double momentum = 0.9;  // sgd
  bool nesterov = false;
  double weight_decay = 0.1;
  bool decay_embeddings = false;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // One update of the owned ranges with gradients times grad_scale (clipping), at learning rate lr: kernels in the
  // order of the stream, one for each run of neighbours in one group. Biases and rates are computed in double.
  virtual void step(const Stream& stream, double lr, double grad_scale) = 0;
  virtual std::int64_t applied() const = 0;  // updates so far (bias correction counts these)
  // State tensors f32 [owned elements], the owned ranges one after another, by name (adamw: "m", "v"; sgd with
  // momentum: "momentum"; sgd without: none), for checkpoints and tests.
  virtual std::vector<std::pair<std::string, Tensor>> state() = 0;
};

// The state is the stream's allocator's; the flat buffers are kept alive. Throws ConfigError, with the values, for an
// unknown type or impossible numbers (betas or momentum outside [0, 1), eps that is not above 0 in FP32, negative
// weight decay, nesterov without momentum).
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, parallel::FlatParameters& flat,
                                          const Stream& stream);
// Bytes of optimizer state for `owned_elements` elements.
std::int64_t optimizer_state_bytes(const OptimizerConfig& config, std::int64_t owned_elements);

// The global gradient norm: chunk sums of squares in FP64, then the tree over chunks of a piece, pieces of a parameter,
// and parameters in model order (R8). Each logical element counts once. Waits for the stream; collective when
// ownership is partitioned. Every rank returns the same bits. NaN and infinities come through.
double grad_norm(const parallel::FlatParameters& flat, const Stream& stream);
// The factor for clipping to max_norm: min(1, max_norm / (norm + 1e-6)) as PyTorch does; 1 when max_norm is 0 (off);
// NaN when the norm is. Throws ConfigError for a negative max_norm.
double clip_factor(double norm, double max_norm);

}  // namespace shoal::optim
