// The loss scale of FP16 training (Micikevicius et al. 2018): small gradients are kept from underflow by a factor on the
// loss, which is taken out of the gradients again; where they overflow, the step is skipped and the factor reduced.
#pragma once
#include <cstdint>
#include <string>

namespace shoal::optim {

struct ScalerConfig {
  std::string mode = "off";  // dynamic | static | off (a factor of 1, and no step is skipped)
  double initial = 65536;    // the factor at the start; with static, always
  double growth = 2;         // multiplies it after `window` steps in a row without an overflow
  double backoff = 0.5;      // multiplies it at an overflow
  std::int64_t window = 2000;
  // Overflows that are taken without reducing it: the factor is reduced at every overflow from the hysteresis-th on,
  // and a whole window without overflow restores the patience (Megatron-LM's meaning). 1: at once.
  std::int64_t hysteresis = 1;
  double minimum = 1;
  // So many overflows in a row at a factor that cannot be reduced end the run.
  std::int64_t give_up = 4;
};
// Throws ConfigError naming option and value: growth or backoff on the wrong side of 1, a factor below the minimum, ...
void check(const ScalerConfig& config);

// Not an owner of any tensor, and the same on every rank as long as every rank tells it the same.
class GradScaler {
 public:
  explicit GradScaler(const ScalerConfig& config);  // throws as check

  bool enabled() const { return config_.mode != "off"; }
  double scale() const { return scale_; }  // multiplies the loss: 1 when off
  // After a step's gradients are known. overflow: one of them was not finite, and the step is skipped.
  void update(bool overflow);
  // give_up overflows in a row at the least factor there is.
  bool exhausted() const { return hopeless_ >= config_.give_up; }

  // For checkpoints.
  struct State {
    double scale = 1;
    std::int64_t clean = 0;     // steps in a row without an overflow
    std::int64_t patience = 0;  // overflows left to take without reducing
    std::int64_t hopeless = 0;
  };
  State state() const { return {scale_, clean_, patience_, hopeless_}; }
  // A static scale, or none, stays the configuration's. Throws ConfigError for what no scaler of it can have.
  void set_state(const State& state);

 private:
  ScalerConfig config_;
  double scale_ = 1;
  std::int64_t clean_ = 0, patience_ = 0, hopeless_ = 0;
};

}  // namespace shoal::optim
