#include "shoal/parallel/data/bucket_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "parallel/data/bucket_plan.hpp"
#include "shoal/core/error.hpp"
#include "shoal/ops/cast.hpp"
#include "shoal/ops/dropout.hpp"

namespace shoal::parallel {
namespace {

std::vector<shard::Range> owned_ranges(const EnginePlan& plan) {
  std::vector<shard::Range> owned;
  for (auto b = plan.buckets.rbegin(); b != plan.buckets.rend(); ++b) {  // ascending
    if (b->extra) continue;
    const shard::Range r{b->owned.first, std::min(b->owned.last, plan.layout.numel)};  // without tail padding
    if (r.size() <= 0) continue;
    if (!owned.empty() && owned.back().last == r.first)
      owned.back().last = r.last;
    else
      owned.push_back(r);
  }
  return owned;
}

}  // namespace

struct BucketEngine::Impl final : nn::GradientSink {
  BucketOptions options;
  Stream stream;
  EnginePlan plan;
  FlatParameters flat;
  Tensor storage;             // of flat.values, with tail padding
  std::vector<Tensor> slots;  // slot 0 begins with flat.grads
  Tensor travelling;          // gradients of slot 0 in reduce_dtype, where that is not f32
  std::vector<std::pair<Tensor, Tensor>> arrivals;  // of it, and where they go
  std::unordered_map<const nn::Parameter*, std::int64_t> index;

  // Of the step under way.
  bool in_step = false;
  std::int64_t shard = 0;                   // local, the next to end
  shard::CarryStack stack{1, 0};            // of the shards that have ended
  std::vector<std::pair<int, int>> merges;  // sums of slots that the last shard completes: first += second
  int nodes = 1;                            // slots in use after them
  std::vector<char> is_ready;               // by unit
  std::vector<std::int64_t> parts_missing;  // by parameter
  std::vector<std::int64_t> outstanding;    // by bucket
  std::vector<Work> works;

  // Parameter p as it lies in `buffer` from `first` on: every piece padded to whole chunks (R8).
  Tensor stored(const Tensor& buffer, std::int64_t first, std::int64_t p) const {
    const Shape& shape = flat.parameters[p]->shape;
    return buffer.slice(first, first + plan.padded[p])
        .view(shape, shard::round_up(shape.tail().numel(), shard::chunk));
  }
  Tensor range(int slot, shard::Range r) const { return slots[slot].slice(r.first, r.last); }

  void bind_grads(int slot) {
    for (std::size_t p = 0; p < flat.parameters.size(); ++p) {
      nn::Parameter& parameter = *flat.parameters[p];
      parameter.grad.resize(parameter.parts);
      for (std::int64_t k = 0; k < parameter.parts; ++k)
        parameter.grad[k] = stored(slots[slot], plan.part_offset(p, k), p);
    }
  }

  void bind_values() {
    for (std::size_t p = 0; p < flat.parameters.size(); ++p) {
      nn::Parameter& parameter = *flat.parameters[p];
      const Tensor value = stored(storage, plan.value_offset[p], p);
      if (parameter.value.defined()) copy(stream, parameter.value, value);
      parameter.value = value;
    }
  }

  // What remains to be summed once the last shard is complete, so that each bucket can do it alone.
  void plan_last_shard() {
    shard::CarryStack after = stack;
    merges.clear();
    after.push([&](int i, int j) { merges.emplace_back(i, j); });
    nodes = after.depth();
  }

  std::string where(const nn::Parameter& p, std::int64_t k) const {
    return p.parts == 1 ? fmt::format("the gradient of {}", p.name)
                        : fmt::format("part {} of {} of the gradient of {}", k, p.parts, p.name);
  }

  void ready(nn::Parameter& p, std::int64_t k) override {
    const auto found = index.find(&p);
    if (found == index.end())
      throw TrainError(
          fmt::format("rank {}: the gradient of {} is ready, which this bucket engine does not hold",
                      flat.comm->rank(), p.name));
    const std::int64_t i = found->second;
    if (k < 0 || k >= p.parts)
      throw TrainError(fmt::format("rank {}: part {} of the gradient of {} is ready, which has {}",
                                   flat.comm->rank(), k, p.name, p.parts));
    const std::int64_t unit = plan.unit[i] + k;
    if (!in_step || is_ready[unit])
      throw TrainError(fmt::format("rank {}: {} is ready {}", flat.comm->rank(), where(p, k),
                                   in_step ? "twice in one step" : "outside a step"));
    is_ready[unit] = 1;
    if (--parts_missing[i] == 0 && !options.reproducible)
      combine_parts(i, {plan.value_offset[i], plan.value_offset[i] + plan.padded[i]});
    for (const std::int64_t b : plan.buckets_of[unit])
      if (--outstanding[b] == 0) launch(plan.buckets[b]);
  }

  void launch(const BucketPlan& bucket) {
    for (const auto& [i, j] : merges) ops::add_(stream, range(i, bucket.elements), range(j, bucket.elements));
    if (flat.comm->size() == 1) return;
    const Tensor out = range(0, bucket.owned);
    const bool scatter = options.zero == 1 && !bucket.extra;
    if (options.reduce_dtype != DType::f32) {
      const Tensor in = travelling.slice(bucket.elements.first, bucket.elements.last),
                   sum = travelling.slice(bucket.owned.first, bucket.owned.last);
      ops::convert(stream, range(0, bucket.elements), in);
      works.push_back(scatter ? flat.comm->reduce_scatter_async(in, sum, ReduceOp::sum, stream)
                              : flat.comm->all_reduce_async(in, sum, ReduceOp::sum, stream));
      arrivals.emplace_back(sum, out);
      return;
    }
    if (!options.reproducible) {
      const Tensor in = range(0, bucket.elements);
      works.push_back(scatter ? flat.comm->reduce_scatter_async(in, out, ReduceOp::sum, stream)
                              : flat.comm->all_reduce_async(in, out, ReduceOp::sum, stream));
      return;
    }
    std::vector<Tensor> sums;
    for (int slot = 0; slot < nodes; ++slot) sums.push_back(range(slot, bucket.elements));
    const std::int64_t last = plan.first + plan.local;
    works.push_back(
        scatter ? flat.comm->reduce_scatter_tree_async(sums, plan.shards, plan.first, last, out, stream)
                : flat.comm->reduce_tree_async(sums, plan.shards, plan.first, last, out, stream));
  }

  // Sums the parts of parameter p into part 0, in slot 0, where part 0 lies in r.
  void combine_parts(std::int64_t p, shard::Range r) {
    const std::int64_t first = std::max<std::int64_t>(r.first - plan.value_offset[p], 0);
    const std::int64_t last = std::min(r.last - plan.value_offset[p], plan.padded[p]);
    if (first >= last) return;
    const auto part_range = [&](std::int64_t k) {
      const std::int64_t offset = plan.part_offset(p, k);
      return range(0, {offset + first, offset + last});
    };
    shard::tree_reduce(flat.parameters[p]->parts, [&](std::int64_t i, std::int64_t j) {
      ops::add_(stream, part_range(i), part_range(j));
    });
  }

  void check_shard(const char* call, std::int64_t local_shard) const {
    if (!in_step) throw Error(fmt::format("BucketEngine::{} before begin_step", call));
    if (local_shard != shard)
      throw Error(fmt::format("BucketEngine::{} for local shard {}: expected {} of {}", call, local_shard,
                              shard, plan.local));
  }

  void check_all_ready() const {
    std::int64_t missing = 0;
    std::string first;
    for (std::size_t p = 0; p < flat.parameters.size(); ++p)
      for (std::int64_t k = 0; k < flat.parameters[p]->parts; ++k)
        if (!is_ready[plan.unit[p] + k] && missing++ == 0) first = where(*flat.parameters[p], k);
    if (missing > 0)
      throw TrainError(fmt::format("rank {}: {} was never ready in this step ({} of {} were not)",
                                   flat.comm->rank(), first, missing, plan.units));
  }

  // Every rank gets the owned ranges of all, in a buffer that lies as the values do.
  void all_gather(const Tensor& buffer, const Stream& on) {
    if (options.zero == 0 || flat.comm->size() == 1) return;
    for (const BucketPlan& b : plan.buckets)
      if (!b.extra)
        works.push_back(flat.comm->all_gather_async(buffer.slice(b.owned.first, b.owned.last),
                                                    buffer.slice(b.elements.first, b.elements.last), on));
    wait_for_works();
  }

  void wait_for_works() {
    for (const Work& work : works) work.synchronize();
    works.clear();
    for (const auto& [from, to] : arrivals) ops::convert(stream, from, to);
    arrivals.clear();
  }
};

BucketEngine::BucketEngine(std::vector<nn::Parameter*> parameters, std::shared_ptr<Communicator> comm,
                           const BucketOptions& options, const Stream& stream)
    : impl_(std::make_unique<Impl>()) {
  Impl& e = *impl_;
  e.options = options;
  e.stream = stream;
  e.plan = make_plan(parameters, comm->size(), comm->rank(), options);
  for (std::size_t p = 0; p < parameters.size(); ++p) e.index.emplace(parameters[p], p);
  e.storage = Tensor::empty({e.plan.storage}, options.param_dtype, comm->allocator());
  fill_zero(stream, e.storage);
  for (int slot = 0; slot < e.plan.slots; ++slot) {
    e.slots.push_back(Tensor::empty({e.plan.slot_numel}, DType::f32, comm->allocator()));
    fill_zero(stream, e.slots.back());
  }
  if (options.reduce_dtype != DType::f32 && comm->size() > 1)
    e.travelling = Tensor::empty({e.plan.slot_numel}, options.reduce_dtype, comm->allocator());
  e.flat.parameters = std::move(parameters);
  e.flat.layout = e.plan.layout;
  e.flat.values = e.storage.slice(0, e.plan.layout.numel);
  e.flat.grads = e.slots[0].slice(0, e.plan.layout.numel);
  e.flat.owned = owned_ranges(e.plan);
  e.flat.partitioned = options.zero == 1 && comm->size() > 1;
  e.flat.comm = std::move(comm);
  e.flat.gather_grads = [&e](const Stream& s) {
    if (e.in_step) throw Error("gather_grads in a step: finish() ends it");
    e.all_gather(e.slots[0], s);
  };
  e.bind_values();
  e.bind_grads(0);
}

BucketEngine::~BucketEngine() = default;

std::int64_t BucketEngine::data_shards() const { return impl_->plan.shards; }
std::int64_t BucketEngine::local_shards() const { return impl_->plan.local; }
std::int64_t BucketEngine::first_shard() const { return impl_->plan.first; }
FlatParameters& BucketEngine::flat() { return impl_->flat; }

void BucketEngine::broadcast_parameters(int root) {
  impl_->flat.comm->broadcast_async(impl_->storage, root, impl_->stream).synchronize();
}

void BucketEngine::begin_step() {
  Impl& e = *impl_;
  if (e.in_step) throw Error("BucketEngine::begin_step in a step: finish() ends one");
  e.in_step = true;
  e.shard = 0;
  e.stack = shard::CarryStack(e.plan.shards, e.plan.first);
  e.is_ready.assign(e.plan.units, 0);
  e.parts_missing.clear();
  for (const nn::Parameter* p : e.flat.parameters) e.parts_missing.push_back(p->parts);
  e.outstanding.clear();
  for (const BucketPlan& b : e.plan.buckets)
    e.outstanding.push_back(static_cast<std::int64_t>(b.waits_for.size()));
  if (e.plan.local == 1) e.plan_last_shard();
}

nn::GradientSink* BucketEngine::sink(std::int64_t local_shard, bool last_microbatch) {
  impl_->check_shard("sink", local_shard);
  return last_microbatch && local_shard == impl_->plan.local - 1 ? impl_.get() : nullptr;
}

void BucketEngine::end_shard(std::int64_t local_shard) {
  Impl& e = *impl_;
  e.check_shard("end_shard", local_shard);
  ++e.shard;
  if (e.shard == e.plan.local) return;  // its buckets were summed one by one
  e.stack.push([&](int i, int j) { ops::add_(e.stream, e.slots[i], e.slots[j]); });
  e.bind_grads(e.stack.depth());
  if (e.shard == e.plan.local - 1) e.plan_last_shard();
}

void BucketEngine::finish() {
  Impl& e = *impl_;
  if (!e.in_step || e.shard != e.plan.local)
    throw Error(fmt::format("BucketEngine::finish after {} of {} local shards of a step",
                            e.in_step ? e.shard : 0, e.plan.local));
  e.check_all_ready();
  e.wait_for_works();
  e.in_step = false;
  if (e.plan.local > 1) e.bind_grads(0);
  if (!e.options.reproducible) return;
  for (std::size_t p = 0; p < e.flat.parameters.size(); ++p)
    if (e.flat.parameters[p]->parts > 1)
      for (const shard::Range& r : e.flat.owned) e.combine_parts(p, r);
}

void BucketEngine::publish() {
  Impl& e = *impl_;
  if (e.in_step) throw Error("BucketEngine::publish in a step: finish() ends it");
  e.all_gather(e.storage, e.stream);
}

FlatParameters BucketEngine::describe(std::vector<nn::Parameter*> parameters, int ranks, int rank,
                                      const BucketOptions& options) {
  const EnginePlan plan = make_plan(parameters, ranks, rank, options);
  FlatParameters flat;
  flat.parameters = std::move(parameters);
  flat.layout = plan.layout;
  flat.values = Tensor::from_blob(nullptr, {plan.layout.numel}, options.param_dtype, Device{});
  flat.grads = Tensor::from_blob(nullptr, {plan.layout.numel}, DType::f32, Device{});
  flat.owned = owned_ranges(plan);
  flat.partitioned = options.zero == 1 && ranks > 1;
  return flat;
}

std::int64_t BucketEngine::value_bytes(const std::vector<nn::Parameter*>& parameters, int ranks,
                                       const BucketOptions& options) {
  return make_plan(parameters, ranks, 0, options).storage * size_of(options.param_dtype);
}

std::int64_t BucketEngine::predicted_bytes(const std::vector<nn::Parameter*>& parameters, int ranks, int rank,
                                           const BucketOptions& options) {
  const EnginePlan plan = make_plan(parameters, ranks, rank, options);
  const bool narrow = options.reduce_dtype != DType::f32 && ranks > 1;
  return plan.slots * plan.slot_numel * size_of(DType::f32) +
         (narrow ? plan.slot_numel * size_of(options.reduce_dtype) : 0);
}

}  // namespace shoal::parallel
