// Learning-rate schedules, as functions of the number of updates applied so far.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace shoal::optim {

struct ScheduleConfig {
  std::string type = "cosine";  // cosine | linear | wsd | constant
  double lr = 1e-3, min_lr = 0.0;
  std::int64_t warmup = 0;      // updates of linear warm-up: update t (from 0) has lr (t + 1) / warmup
  std::int64_t steps = 0;       // the update at which min_lr is reached (not used by constant)
  double decay_fraction = 0.1;  // wsd: the share of steps at the end in which it decays linearly
};

// The rate of update t (from 0). With x = (t - warmup) / (steps - warmup):
//   cosine (Loshchilov, Hutter 2017, without restarts)  min_lr + (lr - min_lr) (1 + cos(pi x)) / 2
//   linear                                               lr + (min_lr - lr) x
//   wsd (warm-up, stable, decay: Hu et al. 2024)         lr until steps - round(decay_fraction steps), then linear
//   constant                                             lr
// A warm-up longer than that is not cut: the rest begins after it, or never.
// Exact where it matters: lr itself at the last update of the warm-up and at the first after it, min_lr
// itself from update `steps` on (constant: never). Throws ConfigError for t < 0.
double learning_rate(const ScheduleConfig& config, std::int64_t t);

// Throws ConfigError, with the values, for an unknown type, a rate that is negative or not finite, min_lr >
// lr, a negative warm-up, or (all but constant) steps < 1.
void check(const ScheduleConfig& config);

// A line for the user where the steps are too few for all of the warm-up, or for all of wsd's decay after it.
std::optional<std::string> shortened(const ScheduleConfig& config);

}  // namespace shoal::optim
