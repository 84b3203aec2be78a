// Learning-rate schedules, as functions of the number of updates applied so far.
#pragma once
#include <cstdint>
#include <string>

namespace shoal::optim {

struct ScheduleConfig {
  std::string type = "cosine";    // cosine | linear | wsd | constant
  double lr = 1e-3, min_lr = 0.0;
  std::int64_t warmup = 0;        // updates of linear warm-up: update t (from 0) has lr (t + 1) / warmup
  std::int64_t steps = 0;         // the update at which min_lr is reached
  double decay_fraction = 0.1;    // wsd: the share of steps at the end in which it decays linearly
};

// The rate of update t (from 0). cosine (Loshchilov, Hutter 2017, without restarts):
// min_lr + (lr - min_lr) (1 + cos(pi (t - warmup) / (steps - warmup))) / 2.
double learning_rate(const ScheduleConfig& config, std::int64_t t);
void check(const ScheduleConfig& config);  // throws ConfigError

}  // namespace shoal::optim
