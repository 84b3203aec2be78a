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
#include <utility>
#include <vector>

#include "shoal/optim/groups.hpp"
#include "shoal/parallel/data/bucket_engine.hpp"

namespace shoal::optim {

struct OptimizerConfig {
  // adamw (Loshchilov, Hutter 2019), adam (Kingma, Ba 2015, with coupled decay), sgd, lion (Chen et al. 2023), lamb
  // (You et al. 2020), adafactor (Shazeer, Stern 2018), muon (Jordan et al. 2024; for matrices, adamw for the rest).
  std::string type = "adamw";
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // adam's; lion has its own use of both betas
  double momentum = 0.9;                          // sgd, muon
  bool nesterov = false;                          // sgd; muon always
  double weight_decay = 0.1;
  bool decay_embeddings = false;
  // adafactor: 1 - t^-decay_rate is the decay of its averages; updates are clipped to a root mean square of
  // clip_threshold; lr is relative to the root mean square of the tensor where scale_parameter is set.
  double decay_rate = 0.8, clip_threshold = 1.0;
  bool scale_parameter = false;
  // muon: Newton-Schulz steps, and the factor of an update of [rows, cols]: "match_rms_adamw"
  // 0.2 sqrt(max(rows, cols)), so that rates and decay are AdamW's; "original" sqrt(max(1, rows / cols)).
  std::int64_t newton_schulz_steps = 5;
  std::string muon_scale = "match_rms_adamw";
  // Of values narrower than FP32: "fp32" copies, which the updates change; or "none": updates are rounded
  // stochastically, keyed by (seed, stochastic_rounding, batch, logical tensor, element) (docs/numerics.md, R10).
  std::string master_weights = "fp32";
  std::vector<ParameterGroup> groups =
      {};  // rules that come before default_groups; the first that covers a tensor holds
};

// What an update needs of a tensor at once, and so how far its state can be partitioned: single elements (any cut), its
// norm, its rows' and columns' sums, or all of the matrix.
enum class Needs : unsigned char { elements, norm, rows, matrix };

struct UpdateStep {
  double lr = 0;
  double grad_scale = 1;              // gradients are multiplied by it: clipping, and 1 / loss scale
  std::uint64_t seed = 0, batch = 0;  // of stochastic rounding
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // One update of the owned ranges: kernels in the order of the stream, one for each run of neighbours in one group.
  // Biases and rates are computed in double. Gradients are not kept. Optimizers that need more than elements are
  // collective where the parameters have several ranks.
  virtual void step(const Stream& stream, const UpdateStep& update) = 0;
  void step(const Stream& stream, double lr, double grad_scale) { step(stream, {lr, grad_scale}); }
  virtual Needs needs() const = 0;
  virtual std::int64_t applied() const = 0;  // updates so far (bias correction counts these)
  virtual void set_applied(std::int64_t updates) = 0;
  // State tensors f32 by name, for checkpoints and tests: "m", "v" (adam and its kin), "momentum" (sgd with momentum,
  // lion, muon), of owned elements, the owned ranges one after another; "master" likewise, where there are masters;
  // adafactor: "rows", "columns" and "v" of whole logical tensors, the same on every rank.
  virtual std::vector<std::pair<std::string, Tensor>> state() = 0;
  // The same state by logical tensor, where this rank has all of it (ConfigError where it is partitioned, or a tensor is
  // in several pieces): f32 [elements of the tensor], views.
  struct LogicalState {
    std::int64_t logical = 0;  // number of the tensor in model order
    std::string kind;          // "m", ...
    Tensor tensor;
  };
  virtual std::vector<LogicalState> logical_state() = 0;
  // The masters become what the values are, of all tensors or of one parameter: after values were set from outside.
  // Nothing where there are none.
  virtual void refresh_masters(const Stream& stream, std::int64_t parameter = -1) = 0;
  // FP32 values of the owned ranges, one after another: not to be written (masters or the values themselves, where they
  // are at hand, else a copy).
  virtual Tensor owned_values(const Stream& stream) const = 0;
};

// The state is the stream's allocator's. `flat` is referred to: what owns it (the engine) must live longer. Throws
// ConfigError, with the values, for an unknown type, impossible numbers (betas or momentum outside [0, 1), eps that is
// not above 0 in FP32, negative weight decay, nesterov without momentum, ...), and a group's rule that covers nothing.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, parallel::FlatParameters& flat,
                                          const Stream& stream);
// Throws as make_optimizer for what can be seen without parameters.
void check(const OptimizerConfig& config);
// Bytes of state() for flat parameters that may be without memory (BucketEngine::describe); the second form for
// `owned_elements` f32 elements of which nothing else is known: a lower bound for adafactor and muon.
std::int64_t optimizer_state_bytes(const OptimizerConfig& config, const parallel::FlatParameters& flat);
std::int64_t optimizer_state_bytes(const OptimizerConfig& config, std::int64_t owned_elements);

// The global gradient norm: chunk sums of squares in FP64, then the tree over chunks of a piece, pieces of a parameter,
// and parameters in model order (R8). Each logical element counts once. Waits for the stream; collective when
// ownership is partitioned. Every rank returns the same bits. NaN and infinities come through, and only they: finite
// gradients have a finite norm.
double grad_norm(const parallel::FlatParameters& flat, const Stream& stream);
// The factor for clipping to max_norm: min(1, max_norm / (norm + 1e-6)) as PyTorch does; 1 when max_norm is 0 (off);
// NaN when the norm is. Throws ConfigError for a negative max_norm.
double clip_factor(double norm, double max_norm);
// Clipping by value: the owned gradients become min(max(g * grad_scale, -limit), limit).
void clip_by_value(parallel::FlatParameters& flat, double grad_scale, double limit, const Stream& stream);

}  // namespace shoal::optim
