#include "optim/flat.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "shoal/core/error.hpp"
#include "shoal/ops/cast.hpp"

namespace shoal::optim {
namespace {

constexpr std::int64_t block =
    65536;  // elements updated at once where values have no masters: 256 KB of FP32

}  // namespace

FlatOptimizer::FlatOptimizer(const OptimizerConfig& config, parallel::FlatParameters& flat,
                             const Stream& stream)
    : config_(config),
      flat_(flat),
      tensors_(logical_tensors(config, flat)),
      runs_(make_runs(flat, tensors_)) {
  if (flat.values.dtype() == DType::f32) return;
  if (config.master_weights == "none") {
    parts_ = parts_of(flat);
  } else {
    master_ = Tensor::empty({owned_elements(flat)}, DType::f32, stream);
    FlatOptimizer::refresh_masters(stream, -1);
  }
}

void FlatOptimizer::set_applied(std::int64_t updates) {
  if (updates < 0) throw ConfigError(fmt::format("{} applied updates: expected 0 or more", updates));
  applied_ = updates;
}

void FlatOptimizer::refresh_masters(const Stream& stream, std::int64_t parameter) {
  if (!master_.defined()) return;
  std::int64_t at = 0;
  for (const shard::Range& r : flat_.owned) {
    for (const shard::Segment& s : flat_.layout.segments) {
      const std::int64_t first = std::max(r.first, s.offset), last = std::min(r.last, s.offset + s.padded());
      if (first >= last || (parameter >= 0 && s.tensor != parameter)) continue;
      ops::convert(stream, flat_.values.slice(first, last),
                   master_.slice(at + first - r.first, at + last - r.first));
    }
    at += r.size();
  }
}

std::int64_t FlatOptimizer::owned_place(std::int64_t e) const {
  std::int64_t at = 0;
  for (const shard::Range& r : flat_.owned) {
    if (e < r.last) return at + e - r.first;
    at += r.size();
  }
  return at;
}

std::int64_t FlatOptimizer::state_place(std::int64_t e) const {
  for (const Run& run : runs_)
    if (e < run.elements.last) return run.state + e - run.elements.first;
  return 0;
}

std::vector<shard::Range> FlatOptimizer::whole_tensors() const {
  if (flat_.partitioned)
    throw ConfigError("the state of an optimizer is partitioned over the ranks (ZeRO 1)");
  std::vector<shard::Range> whole(tensors_.size());
  for (const Part& p : parts_of(flat_)) {
    shard::Range& r = whole[static_cast<std::size_t>(p.logical)];
    if (r.size() > 0)
      throw ConfigError(fmt::format("the state of {} is in several pieces",
                                    flat_.parameters[static_cast<std::size_t>(p.parameter)]->name));
    r = p.elements;
  }
  return whole;
}

void FlatOptimizer::add_masters(std::vector<LogicalState>& all) const {
  if (!master_.defined()) return;
  const std::vector<shard::Range> whole = whole_tensors();
  for (std::size_t l = 0; l < whole.size(); ++l) {
    const std::int64_t at = owned_place(whole[l].first);
    all.push_back({static_cast<std::int64_t>(l), "master", master_.slice(at, at + whole[l].size())});
  }
}

std::vector<Optimizer::LogicalState> FlatOptimizer::logical_state() {
  std::vector<LogicalState> all;
  const std::vector<shard::Range> whole = whole_tensors();
  for (const auto& [kind, t] : named_)
    for (std::size_t l = 0; l < whole.size(); ++l) {
      const std::int64_t at = state_place(whole[l].first);
      all.push_back({static_cast<std::int64_t>(l), kind, t.slice(at, at + whole[l].size())});
    }
  add_masters(all);
  return all;
}

Tensor FlatOptimizer::owned_values(const Stream& stream) const {
  if (master_.defined()) return master_;
  if (flat_.values.dtype() == DType::f32 && flat_.owned.size() == 1)
    return flat_.values.slice(flat_.owned[0].first, flat_.owned[0].last);
  const Tensor all = Tensor::empty({owned_elements(flat_)}, DType::f32, stream);
  std::int64_t at = 0;
  for (const shard::Range& r : flat_.owned) {
    ops::convert(stream, flat_.values.slice(r.first, r.last), all.slice(at, at + r.size()));
    at += r.size();
  }
  return all;
}

std::vector<std::pair<std::string, Tensor>> FlatOptimizer::state() {
  std::vector<std::pair<std::string, Tensor>> all = named_;
  if (master_.defined()) all.emplace_back("master", master_);
  return all;
}

Tensor FlatOptimizer::owned_zeros(const Stream& stream) const {
  return Tensor::zeros({owned_elements(flat_)}, DType::f32, stream);
}

void FlatOptimizer::for_each_slice(const Stream& stream, const UpdateStep& u,
                                   const std::function<void(const Slice&)>& body) const {
  const bool narrow = flat_.values.dtype() != DType::f32;
  // Masters lie as the owned ranges do, whatever a run's state does.
  std::int64_t owned_at = 0;
  std::size_t range = 0;
  for (const Run& run : runs_) {
    const shard::Range& e = run.elements;
    if (narrow && !master_.defined()) {
      stochastic(stream, u, run, body);
      continue;
    }
    while (flat_.owned[range].last <= e.first) owned_at += flat_.owned[range++].size();
    const Tensor values = flat_.values.slice(e.first, e.last), grads = flat_.grads.slice(e.first, e.last);
    const std::int64_t at = owned_at + e.first - flat_.owned[range].first;
    if (narrow)
      body({master_.slice(at, at + e.size()), grads, values, run.state, run.settings});
    else
      body({values, grads, {}, run.state, run.settings});
  }
}

// Block by block: widened, updated, rounded. Numbers go by the logical place, so a block is a row's stretch of a box
// that is narrower than its tensor, or any stretch of one that is not.
void FlatOptimizer::stochastic(const Stream& stream, const UpdateStep& u, const Run& run,
                               const std::function<void(const Slice&)>& body) const {
  const Tensor room = Tensor::empty({std::min(block, run.elements.size())}, DType::f32, stream);
  const auto first_after = std::partition_point(
      parts_.begin(), parts_.end(), [&](const Part& p) { return p.elements.last <= run.elements.first; });
  for (auto p = first_after; p != parts_.end() && p->elements.first < run.elements.last; ++p) {
    const Logical& tensor = tensors_[static_cast<std::size_t>(p->logical)];
    const Shape& shape =
        flat_.parameters[static_cast<std::size_t>(tensor.parameter)]->placement.logical[tensor.tensor].shape;
    const std::int64_t columns = shape.rank() > 1 ? shape[1] : 1;
    const std::int64_t stretch = p->box.cols == columns ? p->elements.size() : p->box.cols;
    const RandomKey key{u.seed, Purpose::stochastic_rounding, u.batch,
                        static_cast<std::uint32_t>(p->logical)};
    std::int64_t e = std::max(p->elements.first, run.elements.first);
    const std::int64_t last = std::min(p->elements.last, run.elements.last);
    while (e < last) {
      const std::int64_t inside = e - p->elements.first;
      const std::int64_t n = std::min({last - e, block, stretch - inside % stretch});
      const std::int64_t row = p->box.row + inside / p->box.cols, column = p->box.col + inside % p->box.cols;
      const Tensor value = flat_.values.slice(e, e + n), wide = room.slice(0, n);
      ops::convert(stream, value, wide);
      body({wide, flat_.grads.slice(e, e + n), {}, run.state + e - run.elements.first, run.settings});
      ops::round_stochastic(stream, wide, key, static_cast<std::uint64_t>(row * columns + column), value);
      e += n;
    }
  }
}

}  // namespace shoal::optim
