// Optimizers over tensors of the caller's own, which keep their memory: gradients are packed into flat buffers, updated
// values unpacked again. On several ranks the gradients are summed first, as data parallelism does.
//
//   optim::TensorOptimizer adam({{"w", w}, {"b", b}}, {.type = "adamw"});
//   adam.step({{"w", dw}, {"b", db}}, {.lr = 1e-3});
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shoal/comm/communicator.hpp"
#include "shoal/optim/optimizer.hpp"

namespace shoal::optim {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

struct TensorStep {
  double lr = 1e-3;
  double loss_scale = 1;   // gradients are divided by it (GradScaler::scale)
  double max_norm = 0;     // clips the global norm; 0: not
  bool average = false;    // gradients are divided by the ranks too
  std::uint64_t seed = 0;  // of stochastic rounding, where 16-bit values have no masters
};

struct TensorStepResult {
  double grad_norm = 0;  // of the gradients summed over the ranks and unscaled, before clipping
  bool skipped = false;  // it is not finite: nothing has moved
};

class TensorOptimizer {
 public:
  // Values: f32, bf16 or f16, all of one type, on cpu, dense, of any rank; two or more dimensions make a matrix
  // [first, all others]. All decay, as in PyTorch, unless rules of config.groups say otherwise (their kinds are all
  // "matrix": rules go by pattern and dims).
  // comm: null for one rank. Throws ConfigError for a name twice, and as make_optimizer; ShapeError for other tensors.
  TensorOptimizer(std::vector<NamedTensor> values, const OptimizerConfig& config,
                  std::shared_ptr<Communicator> comm = nullptr);
  ~TensorOptimizer();
  TensorOptimizer(const TensorOptimizer&) = delete;
  TensorOptimizer& operator=(const TensorOptimizer&) = delete;

  // One update. The gradients: each of its value's shape, f32 or of the values' type, in the order of the values.
  // Values that were changed from outside are taken as they are (their masters and all). Waits for the result.
  // Collective: ranks first compare the lists, and throw ConfigError alike, naming the first difference, before any
  // value travels. ShapeError names a gradient that does not fit.
  TensorStepResult step(const std::vector<NamedTensor>& gradients, const TensorStep& options);

  std::int64_t applied() const;
  // The state by value and kind, "w" and "m": f32 of the value's shape (adafactor: rows, columns and v of their own).
  // The tensors are the optimizer's memory.
  struct StateTensor {
    std::string value, kind;
    Tensor tensor;
  };
  std::vector<StateTensor> state() const;
  // Puts them back. Throws ConfigError naming what is missing, not expected, or of another shape or type; nothing is
  // changed then.
  void load_state(std::int64_t applied, const std::vector<StateTensor>& state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shoal::optim
