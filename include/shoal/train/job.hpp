// A job: the whole configuration of a training run, resolved and checked before any work.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/models/config.hpp"
#include "shoal/optim/grad_scaler.hpp"
#include "shoal/optim/optimizer.hpp"
#include "shoal/optim/outlier.hpp"
#include "shoal/optim/schedule.hpp"

namespace shoal::train {

struct Job {
  models::ModelConfig model;
  struct Data {
    std::string train, val;
    double split = 0.9;
    std::string verify = "auto";  // always | auto | never
    std::uint64_t seed = 1;
  } data;
  struct Parallel {
    std::int64_t data = 0;  // 0: inferred
    std::int64_t tensor = 1, pipeline = 1, virtual_stages = 1;
    bool sequence = false;
    int zero = 0;
    std::string schedule = "1f1b";
  } parallel;
  struct Comm {
    std::string backend = "auto";
    double timeout = 300.0;  // seconds
    bool shared_buffers = true;
  } comm;
  struct Train {
    std::int64_t steps = 100, global_batch = 8, micro_batch = 0;  // sequences; 0: global_batch / V
    std::string precision = "fp32";
    std::uint64_t seed = 1;
    double clip = 1.0, clip_value = 0.0;  // by norm, by value; 0: not
    std::string device = "auto";
    int threads = 0;              // 0: the machine's share of this rank
    std::int64_t eval_every = 0;  // 0: at the end only, when there is validation data
    std::int64_t check_replicas = 0;
    std::string recompute = "none";
  } train;
  // Types as "fp32", "bf16", "fp16"; "auto": as the preset train.precision says (docs/numerics.md).
  struct Precision {
    std::string param_dtype = "auto", compute_dtype = "auto", reduce_dtype = "auto",
                grad_accum_dtype = "auto";
    std::string master_weights = "fp32";  // | "none": stochastic rounding
  } precision;
  optim::ScalerConfig scaler{.mode = "auto"};
  optim::OutlierConfig outliers;
  struct Ema {
    double decay = 0;  // 0: none
  } ema;
  optim::OptimizerConfig optimizer;
  optim::ScheduleConfig schedule;
  struct Reproducible {
    bool on = false;
    std::int64_t data = 1, tensor = 1;
  } reproducible;
  struct Checkpoint {
    std::int64_t every = 0, keep = 2;
    std::string resume = "auto";
  } checkpoint;
  struct Run {
    std::string dir, name = "run";
  } run;
};

// Reads a TOML file (empty path: none) and dotted overrides ("train.steps=100", values in TOML syntax; a bare
// word is a string), later ones winning. Unknown keys, wrong types and impossible values throw ConfigError
// with the key, the value, what would be accepted and the nearest known key; a listed key that is not built
// yet is refused as such.
Job load_job(const std::string& path, const std::vector<std::string>& overrides);

// Fills what is inferred from the rank count and checks every division, naming all factors and which values
// would do.
Job resolve(const Job& job, int ranks);

// What a resolved job computes in.
struct Types {
  DType param, compute, reduce;
};
Types types_of(const Job& resolved);

// Lines for the user on what a resolved job asks for and will not, or not quite, have. The Trainer logs them on
// rank 0.
std::vector<std::string> warnings(const Job& resolved);

std::string to_toml(const Job& job);  // the whole configuration as resolved; load_job reads it back

std::string job_reference();  // docs/job.md: every key with its default, what is accepted and its meaning

}  // namespace shoal::train
