// What must divide what. Every message has all factors and the values that would do.
#include "train/job_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "shoal/core/error.hpp"
#include "shoal/core/text.hpp"
#include "train/job_keys.hpp"

namespace shoal::train {
namespace {

// a x b, both above 0; what does not fit 64 bits is refused, with both keys.
std::int64_t product(const char* name_a, std::int64_t a, const char* name_b, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out))
    throw ConfigError(fmt::format("{} = {} x {} = {} does not fit 64 bits", name_a, a, name_b, b));
  return out;
}

void check_tensor_degree(const Job& job) {
  const std::int64_t tp = job.parallel.tensor;
  if (tp == 1) return;
  const auto refuse = [&](std::int64_t units, const char* what) {
    throw ConfigError(fmt::format("parallel.tensor = {}: {} do not divide by {}; degrees that would do: {}",
                                  tp, text::count(units, what), tp, divisors(units)));
  };
  if (job.model.heads % tp != 0) refuse(job.model.heads, "head");
  if (job.model.ffn_hidden > 0 && job.model.ffn_hidden % tp != 0)
    refuse(job.model.ffn_hidden, "feed-forward column");
}

void check_pipeline(const Job& job) {
  const std::int64_t stages = product("parallel.pipeline", job.parallel.pipeline, "parallel.virtual_stages",
                                      job.parallel.virtual_stages);
  if (job.model.layers % stages != 0) {
    throw ConfigError(
        fmt::format("parallel.pipeline = {} x parallel.virtual_stages = {}: {} do not divide by "
                    "{} stages; counts that would do: {}",
                    job.parallel.pipeline, job.parallel.virtual_stages,
                    text::count(job.model.layers, "layer"), stages, divisors(job.model.layers)));
  }
}

// B sequences in V shards of microbatches of m.
void check_batch(std::int64_t B, std::int64_t V, std::int64_t m, const std::string& shards) {
  if (B % V != 0) {
    const std::int64_t low = std::max<std::int64_t>(1, B / V) * V;
    std::int64_t next = 0;
    const bool fits = !__builtin_add_overflow(low, V, &next);
    throw ConfigError(
        fmt::format("train.global_batch = {} does not divide by {}; global batches that would do: {}{}; "
                    "shard counts that would do: {}",
                    B, shards, low, fits ? fmt::format(" or {}", next) : "", divisors(B)));
  }
  if (m > 0 && B / V % m != 0) {
    std::int64_t together = 0;
    const bool fits = !__builtin_mul_overflow(V, m, &together);
    throw ConfigError(
        fmt::format("train.global_batch = {} does not divide by {} x train.micro_batch = {}{}; "
                    "microbatches that would do: {}",
                    B, shards, m, fits ? fmt::format(" = {}", together) : "", divisors(B / V)));
  }
}

DType type_named(const std::string& name) {
  return name == "bf16" ? DType::bf16 : name == "fp16" ? DType::f16 : DType::f32;
}

// Every "auto" becomes what the preset says; what cannot be had together is refused.
void resolve_precision(Job& job) {
  auto& p = job.precision;
  const std::string& preset = job.train.precision;
  for (std::string* s : {&p.param_dtype, &p.compute_dtype})
    if (*s == "auto") *s = preset;
  for (std::string* s : {&p.reduce_dtype, &p.grad_accum_dtype})
    if (*s == "auto") *s = "fp32";
  if (job.scaler.mode == "auto") job.scaler.mode = p.compute_dtype == "fp16" ? "dynamic" : "off";
  job.optimizer.master_weights = p.master_weights;
  if (p.param_dtype != "fp32" && p.compute_dtype != "fp32" && p.param_dtype != p.compute_dtype)
    throw ConfigError(
        fmt::format("precision.param_dtype = \"{}\" with precision.compute_dtype = \"{}\": neither holds the "
                    "other's numbers; expected the same, or fp32 for one of them",
                    p.param_dtype, p.compute_dtype));
  if (job.reproducible.on && p.reduce_dtype != "fp32")
    throw ConfigError(fmt::format(
        "precision.reduce_dtype = \"{}\" with reproducible.on = true: sums that are rounded as they "
        "travel depend on the layout; expected fp32 (docs/numerics.md, R7)",
        p.reduce_dtype));
}

}  // namespace

Types types_of(const Job& job) {
  const auto& p = job.precision;
  return {type_named(p.param_dtype), type_named(p.compute_dtype), type_named(p.reduce_dtype)};
}

std::string divisors(std::int64_t n) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d <= n / d; ++d) {
    if (n % d != 0) continue;
    all.push_back(d);
    if (d != n / d) all.push_back(n / d);
  }
  std::sort(all.begin(), all.end());
  std::string out;
  for (std::size_t i = 0; i < all.size(); ++i)
    out += fmt::format("{}{}", i == 0 ? "" : i + 1 == all.size() ? " or " : ", ", all[i]);
  return out;
}

void check_job(const Job& job) {
  for (const Key& key : job_keys()) check_value(key, job);
  if (job.train.eval_every > 0 && job.data.val.empty() && job.data.split == 1.0)
    throw ConfigError(
        fmt::format("train.eval_every = {} asks for evaluations, but data.split = 1.0 leaves nothing of "
                    "data.train for them: set data.split below 1, or data.val, or train.eval_every = 0",
                    job.train.eval_every));
  check_tensor_degree(job);
  check_pipeline(job);
  for (const Key& key : job_keys()) check_built(key, job);
}

Job resolve(const Job& given, int ranks) {
  check_job(given);
  Job job = given;
  auto& p = job.parallel;
  if (ranks < 1) throw ConfigError(fmt::format("{} ranks: at least 1", ranks));
  const std::int64_t model_ranks = product("parallel.tensor", p.tensor, "parallel.pipeline", p.pipeline);
  if (ranks % model_ranks != 0) {
    throw ConfigError(
        fmt::format("{} ranks do not divide by parallel.tensor = {} x parallel.pipeline = {}; rank counts "
                    "that would do: multiples of {}",
                    ranks, p.tensor, p.pipeline, model_ranks));
  }
  const std::int64_t dp = ranks / model_ranks;
  if (p.data != 0 && p.data != dp) {
    const std::int64_t needed = product("parallel.data", p.data, "the ranks of a model", model_ranks);
    throw ConfigError(
        fmt::format("parallel.data = {} x parallel.tensor = {} x parallel.pipeline = {} needs {}, and "
                    "there {} {}: start {} "
                    "(mpirun -n {}, or comm.backend = \"local\"), or set parallel.data = {}, or leave it out",
                    p.data, p.tensor, p.pipeline, text::count(needed, "rank"), ranks == 1 ? "is" : "are",
                    ranks, needed, needed, dp));
  }
  p.data = dp;
  job.model.tensor = job.reproducible.on ? job.reproducible.tensor : p.tensor;
  job.model = job.model.resolved();

  resolve_precision(job);
  auto& r = job.reproducible;
  if (r.on && r.data % dp != 0) {
    throw ConfigError(fmt::format(
        "reproducible.data = {} does not divide by {}: set it to a multiple of {} that "
        "divides the global batch (it is part of the job: the bits are the same on every rank count that "
        "divides it), or use a rank count that divides {}: {}",
        r.data, text::count(dp, "data-parallel rank"), dp, r.data, divisors(r.data)));
  }
  auto& t = job.train;
  const std::int64_t V = r.on ? r.data : dp;
  check_batch(t.global_batch, V, t.micro_batch,
              r.on ? fmt::format("reproducible.data = {}", V) : text::count(V, "data-parallel rank"));
  if (t.micro_batch == 0) t.micro_batch = t.global_batch / V;
  product("train.global_batch", t.global_batch, "model.seq", job.model.seq);
  const std::int64_t tokens = t.micro_batch * job.model.seq;
  if (tokens % job.model.tensor != 0) {
    throw ConfigError(
        fmt::format("train.micro_batch = {} x model.seq = {} = {} tokens do not divide by {} tensor "
                    "pieces (reproducible.tensor); counts that would do: {}",
                    t.micro_batch, job.model.seq, tokens, job.model.tensor, divisors(tokens)));
  }
  if (job.schedule.min_lr > job.schedule.lr && job.schedule.type != "constant") {
    throw ConfigError(fmt::format("optimizer.min_lr = {} is above optimizer.lr = {}", job.schedule.min_lr,
                                  job.schedule.lr));
  }
  if (t.clip_value > 0 && t.clip > 0)
    throw ConfigError(fmt::format(
        "train.clip = {} with train.clip_value = {}: gradients are clipped by norm or by value; set one "
        "of them to 0",
        t.clip, t.clip_value));
  optim::check(job.optimizer);
  optim::check(job.scaler);
  optim::check(job.outliers);
  job.schedule.steps = t.steps;
  if (t.steps > 0) optim::check(job.schedule);
  if (t.device == "auto") t.device = "cpu";
  if (job.run.dir.empty() && (job.run.name.empty() || job.run.name == "." || job.run.name == ".." ||
                              job.run.name.find('/') != std::string::npos))
    throw ConfigError(fmt::format(
        "run.name = \"{}\": expected a plain name for a directory below runs/ (run.dir takes any path)",
        job.run.name));
  if (job.run.dir.empty()) job.run.dir = "runs/" + job.run.name;
  return job;
}

std::vector<std::string> warnings(const Job& job) {
  std::vector<std::string> lines;
  const auto& r = job.reproducible;
  if (!r.on && (r.data != 1 || r.tensor != 1))
    lines.push_back(
        fmt::format("reproducible.data = {} and reproducible.tensor = {} are recorded but not used: "
                    "reproducible.on is false",
                    r.data, r.tensor));
  if (job.precision.compute_dtype == "fp16" && job.scaler.mode == "off")
    lines.emplace_back(
        "precision.compute_dtype = \"fp16\" with scaler.mode = \"off\": gradients below 6e-8 are lost, and "
        "one that "
        "overflows ends the run; expected dynamic");
  if (const auto text = optim::shortened(job.schedule); text && job.train.steps > 0) lines.push_back(*text);
  return lines;
}

}  // namespace shoal::train
