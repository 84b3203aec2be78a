// Optimizers over flat parameters.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shoal/parallel/data/bucket_engine.hpp"

namespace shoal::optim {

// Which parameters decay: a visible list, first match wins. Default: matrices decay, the rest does not.
struct ParameterGroup {
  std::string name;                          // "matrices"
  std::vector<nn::ParameterKind> kinds;
  double weight_decay = 0.0;
};
std::vector<ParameterGroup> default_groups(double weight_decay, bool decay_embeddings = false);

struct OptimizerConfig {
  std::string type = "adamw";                // adamw | sgd
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double momentum = 0.9;                     // sgd
  bool nesterov = false;
  double weight_decay = 0.1;
  bool decay_embeddings = false;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // One update of the owned ranges with gradients times grad_scale (clipping), at learning rate lr.
  virtual void step(const Stream& stream, double lr, double grad_scale) = 0;
  virtual std::int64_t applied() const = 0;  // updates so far (bias correction counts these)
  // State tensors over the owned ranges, by name ("m", "v"), for checkpoints and tests.
  virtual std::vector<std::pair<std::string, Tensor>> state() = 0;
};

// Throws ConfigError for an unknown type or impossible numbers (betas outside [0, 1), eps <= 0, ...).
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, parallel::FlatParameters& flat,
                                          const Stream& stream);
// Bytes of optimizer state for `owned_elements` elements.
std::int64_t optimizer_state_bytes(const OptimizerConfig& config, std::int64_t owned_elements);

// The global gradient norm: chunk sums of squares in FP64, then the tree over chunks, pieces and parameters (R8).
// Collective when ownership is partitioned. Every rank returns the same bits.
double grad_norm(const parallel::FlatParameters& flat, const Stream& stream);
// The factor for clipping to max_norm: min(1, max_norm / (norm + 1e-6)) as PyTorch does; 1 when max_norm is 0.
double clip_factor(double norm, double max_norm);

}  // namespace shoal::optim
