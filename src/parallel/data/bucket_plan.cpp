#include "parallel/data/bucket_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "shoal/core/error.hpp"
#include "shoal/ops/cast.hpp"
#include "shoal/shard/tree.hpp"

namespace shoal::parallel {
namespace {

void check_options(int ranks, int rank, const BucketOptions& o) {
  if (ranks < 1 || rank < 0 || rank >= ranks)
    throw ConfigError(fmt::format("a bucket engine for rank {} of {}", rank, ranks));
  if (o.zero != 0 && o.zero != 1)
    throw ConfigError(fmt::format("parallel.zero = {}: the bucket engine has stages 0 and 1", o.zero));
  for (const auto& [name, type] : {std::pair{"param_dtype", o.param_dtype}, {"reduce_dtype", o.reduce_dtype}})
    if (!ops::is_training_type(type))
      throw ConfigError(
          fmt::format("a bucket engine with {} {}: expected f32, bf16 or f16", name, shoal::name(type)));
  if (o.reproducible && o.reduce_dtype != DType::f32)
    throw ConfigError(
        fmt::format("a bucket engine with reduce_dtype {} in reproducible mode: expected f32 (sums that "
                    "are rounded as they travel depend on the layout)",
                    shoal::name(o.reduce_dtype)));
  if (o.bucket_bytes < 1)
    throw ConfigError(fmt::format("buckets of {} bytes: expected 1 or more", o.bucket_bytes));
  if (o.data_shards < 0)
    throw ConfigError(fmt::format("{} data shards: expected 0 (one a rank) or more", o.data_shards));
  if (o.reproducible && o.data_shards % ranks != 0)
    throw ConfigError(
        fmt::format("{} data shards (reproducible.data) do not divide among {} data-parallel ranks",
                    o.data_shards, ranks));
}

void check_parameters(const std::vector<nn::Parameter*>& parameters) {
  std::unordered_set<const nn::Parameter*> seen;
  for (const nn::Parameter* p : parameters) {
    if (!p) throw ConfigError("a parameter of a bucket engine is null");
    if (!seen.insert(p).second)
      throw ConfigError(fmt::format("parameter {} is listed twice: its uses are parts", p->name));
    if (p->parts < 1)
      throw ConfigError(fmt::format("parameter {} has {} parts: expected 1 or more", p->name, p->parts));
    if (p->shape.rank() < 1)
      throw ConfigError(fmt::format("parameter {} has shape []: expected [pieces, ...]", p->name));
  }
}

int most_slots(std::int64_t shards, int ranks) {
  int slots = 1;
  const std::int64_t local = shards / ranks;
  for (std::int64_t first = 0; first < shards; first += local)
    slots = std::max(slots, shard::CarryStack::max_depth(shards, first, first + local));
  return slots;
}

// Buckets of part 0. ZeRO 1: cuts at multiples of 256 x ranks.
void plan_main(EnginePlan& plan, const std::vector<nn::Parameter*>& parameters, int ranks, int rank,
               const BucketOptions& options) {
  const std::int64_t grain = options.zero == 1 ? shard::chunk * ranks : 1;
  std::int64_t last = plan.storage;
  for (const shard::Bucket& b :
       shard::plan_buckets(plan.layout, std::max<std::int64_t>(options.bucket_bytes / 4, 1))) {
    BucketPlan bucket;
    bucket.elements = {shard::round_up(b.elements.first, grain), last};
    if (bucket.elements.size() <= 0) continue;
    last = bucket.elements.first;
    bucket.owned = bucket.elements;
    if (options.zero == 1) {
      const std::int64_t part = bucket.elements.size() / ranks;
      bucket.owned.first += part * rank;
      bucket.owned.last = bucket.owned.first + part;
    }
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (plan.value_offset[p] >= bucket.elements.last ||
          plan.value_offset[p] + plan.padded[p] <= bucket.elements.first)
        continue;
      // Outside reproducible mode parts are combined before the reduction: the bucket waits for all of them.
      const std::int64_t parts = options.reproducible ? 1 : parameters[p]->parts;
      for (std::int64_t k = 0; k < parts; ++k) bucket.waits_for.push_back(plan.unit[p] + k);
    }
    plan.buckets.push_back(std::move(bucket));
  }
}

// Buckets of parts 1, 2, ...: these travel on their own only where the data axis is summed before the parts.
void plan_extra(EnginePlan& plan, const std::vector<std::int64_t>& unit_of_extra,
                const BucketOptions& options) {
  if (!options.reproducible) return;
  for (const shard::Bucket& b :
       shard::plan_buckets(plan.extra, std::max<std::int64_t>(options.bucket_bytes / 4, 1))) {
    BucketPlan bucket;
    bucket.extra = true;
    bucket.elements = {plan.storage + b.elements.first, plan.storage + b.elements.last};
    bucket.owned = bucket.elements;
    for (const std::int64_t s : b.segments) {
      const std::int64_t unit = unit_of_extra[plan.extra.segments[s].tensor];
      if (bucket.waits_for.empty() || bucket.waits_for.back() != unit) bucket.waits_for.push_back(unit);
    }
    plan.buckets.push_back(std::move(bucket));
  }
}

}  // namespace

EnginePlan make_plan(const std::vector<nn::Parameter*>& parameters, int ranks, int rank,
                     const BucketOptions& options) {
  check_options(ranks, rank, options);
  check_parameters(parameters);
  EnginePlan plan;
  plan.shards = options.reproducible && options.data_shards > 0 ? options.data_shards : ranks;
  plan.local = plan.shards / ranks;
  plan.first = rank * plan.local;
  plan.slots = most_slots(plan.shards, ranks);

  std::vector<shard::PieceCount> values, extra;
  std::vector<std::int64_t> unit_of_extra;
  for (const nn::Parameter* p : parameters) {
    const shard::PieceCount count{p->pieces(), p->shape.tail().numel()};
    values.push_back(count);
    plan.unit.push_back(plan.units);
    for (std::int64_t k = 1; k < p->parts; ++k) {
      extra.push_back(count);
      unit_of_extra.push_back(plan.units + k);
    }
    plan.units += p->parts;
  }
  plan.layout = shard::FlatLayout::make(values);
  plan.extra = shard::FlatLayout::make(extra);
  plan.storage = shard::round_up(plan.layout.numel, options.zero == 1 ? shard::chunk * ranks : shard::chunk);
  plan.slot_numel = plan.storage + plan.extra.numel;

  std::int64_t offset = 0, extra_offset = plan.storage;
  for (const nn::Parameter* p : parameters) {
    const std::int64_t padded = p->pieces() * shard::round_up(p->shape.tail().numel(), shard::chunk);
    plan.value_offset.push_back(offset);
    plan.extra_offset.push_back(extra_offset);
    plan.padded.push_back(padded);
    offset += padded;
    extra_offset += (p->parts - 1) * padded;
  }

  plan_main(plan, parameters, ranks, rank, options);
  plan_extra(plan, unit_of_extra, options);
  plan.buckets_of.resize(plan.units);
  for (std::size_t b = 0; b < plan.buckets.size(); ++b)
    for (const std::int64_t unit : plan.buckets[b].waits_for) plan.buckets_of[unit].push_back(b);
  return plan;
}

}  // namespace shoal::parallel
