// What optimizers over flat buffers have in common: settings by run, FP32 masters or stochastic rounding of values that
// are narrower, and the count of updates.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "optim/runs.hpp"
#include "shoal/ops/optimizer.hpp"

namespace shoal::optim {

class FlatOptimizer : public Optimizer {
 public:
  FlatOptimizer(const OptimizerConfig& config, parallel::FlatParameters& flat, const Stream& stream);
  std::int64_t applied() const override { return applied_; }
  void set_applied(std::int64_t updates) override;
  void refresh_masters(const Stream& stream, std::int64_t parameter) override;
  std::vector<LogicalState> logical_state() override;
  Tensor owned_values(const Stream& stream) const override;
  std::vector<std::pair<std::string, Tensor>> state() override;

 protected:
  // A stretch of one run: what the kernels of ops/optimizer.hpp take.
  struct Slice {
    Tensor p, grad;      // f32
    Tensor narrow;       // the value beside p where p is a master, else undefined
    std::int64_t state;  // where the run's state begins, for this stretch
    const Settings& settings;
    Tensor of(const Tensor& all) const { return all.slice(state, state + p.numel()); }
  };
  // body(slice) for all that this rank owns, in order; p and narrow are its results. body must be elementwise.
  void for_each_slice(const Stream& stream, const UpdateStep& u,
                      const std::function<void(const Slice&)>& body) const;
  Tensor owned_zeros(const Stream& stream) const;  // f32 [owned elements]
  std::vector<Run>& runs() { return runs_; }

  // Where state of element e of the flat buffers lies in the tensors of named_ and, where that differs, masters.
  std::int64_t state_place(std::int64_t e) const;
  std::int64_t owned_place(std::int64_t e) const;
  // The logical tensors, each with the one stretch of the flat buffers that it is. Throws as logical_state.
  std::vector<shard::Range> whole_tensors() const;
  void add_masters(std::vector<LogicalState>& all) const;

  // Doubles that an update's scalars are made of.
  double count_update() { return static_cast<double>(++applied_); }

  OptimizerConfig config_;
  parallel::FlatParameters& flat_;
  std::vector<Logical> tensors_;
  std::vector<std::pair<std::string, Tensor>> named_;  // state, in addition to the masters

 private:
  void stochastic(const Stream& stream, const UpdateStep& u, const Run& run,
                  const std::function<void(const Slice&)>& body) const;

  std::vector<Run> runs_;
  std::vector<Part> parts_;
  Tensor master_;  // undefined: none
  std::int64_t applied_ = 0;
};

// The scalars of Adam's averages for update t (from 1), computed in double and rounded once each, with
// step_size = lr / (1 - beta1^t); no decay of either kind.
ops::AdamWStep adam_scalars(const Settings& settings, double t, double lr, double grad_scale);

// One a type; the factory in optimizer.cpp picks.
std::unique_ptr<Optimizer> make_adam(const OptimizerConfig&, parallel::FlatParameters&, const Stream&);
std::unique_ptr<Optimizer> make_sgd(const OptimizerConfig&, parallel::FlatParameters&, const Stream&);
std::unique_ptr<Optimizer> make_lion(const OptimizerConfig&, parallel::FlatParameters&, const Stream&);
std::unique_ptr<Optimizer> make_lamb(const OptimizerConfig&, parallel::FlatParameters&, const Stream&);
std::unique_ptr<Optimizer> make_adafactor(const OptimizerConfig&, parallel::FlatParameters&, const Stream&);
std::unique_ptr<Optimizer> make_muon(const OptimizerConfig&, parallel::FlatParameters&, const Stream&);

// f32 elements of the state, masters left out, of an optimizer over these parameters.
std::int64_t adafactor_state_elements(const std::vector<Logical>& tensors,
                                      const parallel::FlatParameters& flat);
std::int64_t muon_state_elements(const std::vector<Run>& runs);

}  // namespace shoal::optim
