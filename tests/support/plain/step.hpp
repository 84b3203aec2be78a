// One training step of the plain reference in reproducible mode: microbatches in index order, data shards by the tree,
// parts by the tree, the gradient norm by chunks, pieces and parameters, clipping, AdamW.
#pragma once
#include "shoal/optim/optimizer.hpp"
#include "support/plain/model.hpp"

namespace shoal::plain {

struct StepSize {
  std::int64_t data_shards = 1, global_batch = 1, micro_batch = 1;
  std::uint64_t seed = 0;
  double clip = 0, lr = 0;
};

class Trainer {
 public:
  Trainer(models::LanguageModel& model, const StepSize& size, const optim::OptimizerConfig& optimizer,
          bool loop);
  struct Result {
    double loss, grad_norm;
  };
  // tokens, targets: the whole global batch, [global_batch x seq]. `number` is the batch's.
  Result step(std::uint64_t number, const std::vector<std::int32_t>& tokens,
              const std::vector<std::int32_t>& targets);
  Model model;

 private:
  double norm(const Grads& grads) const;
  void adamw(const Grads& grads, double grad_scale);

  struct Stored {
    std::string name;
    std::int64_t pieces;
    bool decays;
    Vec m, v;
  };
  std::vector<Stored> order_;  // model order
  StepSize size_;
  optim::OptimizerConfig optimizer_;
  std::int64_t seq_, applied_ = 0;
};

}  // namespace shoal::plain
