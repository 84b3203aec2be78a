#include "shoal/optim/standalone.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "optim/flat.hpp"
#include "optim/same_list.hpp"
#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"
#include "shoal/ops/cast.hpp"

namespace shoal::optim {
namespace {

std::unique_ptr<nn::Parameter> parameter_of(const NamedTensor& v) {
  const Tensor& t = v.tensor;
  auto p = std::make_unique<nn::Parameter>();
  p->name = v.name;
  const std::int64_t n = t.numel(), rows = t.shape().rank() >= 2 ? t.dim(0) : n;
  const bool matrix = t.shape().rank() >= 2 && rows > 0;
  p->kind = nn::ParameterKind::matrix;  // what decays; vectors are told by their dimensions
  p->shape = matrix ? Shape{1, rows, n / rows} : Shape{1, n};
  p->placement = shard::Placement::whole(v.name, matrix ? Shape{rows, n / rows} : Shape{n});
  p->placement.partial_axes = {"data"};
  return p;
}

}  // namespace

struct TensorOptimizer::Impl {
  std::vector<NamedTensor> values;
  std::shared_ptr<Communicator> comm;
  Stream stream = Stream::create(Device{});
  std::vector<std::unique_ptr<nn::Parameter>> parameters;
  std::unique_ptr<parallel::BucketEngine> engine;
  std::unique_ptr<Optimizer> optimizer;
  std::uint64_t batch = 0;

  Tensor stored(std::size_t i) const { return parameters[i]->value.select(0).flat(); }

  // The caller's values, where they are no longer what the last step left.
  void take_values(bool first) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Tensor mine = stored(i), &theirs = values[i].tensor;
      const auto bytes = static_cast<std::size_t>(theirs.nbytes());
      if (bytes == 0 || std::memcmp(mine.data(), theirs.data(), bytes) == 0) continue;
      std::memcpy(mine.data(), theirs.data(), bytes);
      if (!first) optimizer->refresh_masters(stream, static_cast<std::int64_t>(i));
    }
  }

  void take_gradients(const std::vector<NamedTensor>& gradients) const {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (gradients[i].tensor.numel() > 0)
        ops::convert(stream, gradients[i].tensor.flat(), parameters[i]->grad[0].select(0).flat());
  }

  void check(const std::vector<NamedTensor>& gradients) const {
    for (std::size_t i = 0; i < std::max(values.size(), gradients.size()); ++i) {
      if (i >= gradients.size())
        throw ShapeError(fmt::format("{} gradients for {} values: that of {} is missing", gradients.size(),
                                     values.size(), values[i].name));
      if (i >= values.size() || gradients[i].name != values[i].name)
        throw ShapeError(fmt::format("gradient {} is that of {}: expected {}", i, gradients[i].name,
                                     i < values.size() ? "that of " + values[i].name : "no more"));
      const Tensor &g = gradients[i].tensor, &v = values[i].tensor;
      const bool fits =
          g.defined() && (g.dtype() == DType::f32 || g.dtype() == v.dtype()) && g.shape() == v.shape();
      if (!fits)
        throw ShapeError(fmt::format("the gradient of {}: expected {}{}{}, got {}", values[i].name,
                                     name(v.dtype()), v.dtype() == DType::f32 ? "" : " or f32",
                                     v.shape().str(), g.str()));
      g.require_dense();
    }
  }
};

TensorOptimizer::TensorOptimizer(std::vector<NamedTensor> values, const OptimizerConfig& config,
                                 std::shared_ptr<Communicator> comm)
    : impl_(std::make_unique<Impl>()) {
  Impl& s = *impl_;
  s.comm = comm ? std::move(comm) : make_self();
  if (values.empty()) throw ConfigError("an optimizer of no tensors");
  std::set<std::string> names;
  parallel::BucketOptions options;
  options.param_dtype = values[0].tensor.dtype();
  for (const NamedTensor& v : values) {
    if (!names.insert(v.name).second) throw ConfigError(fmt::format("two tensors named {}", v.name));
    if (!v.tensor.defined() || v.tensor.dtype() != options.param_dtype ||
        !ops::is_training_type(v.tensor.dtype()) || v.tensor.device().type != DeviceType::cpu)
      throw ShapeError(fmt::format(
          "{}: expected {} on cpu{}, got {}", v.name,
          ops::is_training_type(options.param_dtype) ? name(options.param_dtype) : "f32, bf16 or f16",
          ops::is_training_type(options.param_dtype) ? fmt::format(", as {} is", values[0].name) : "",
          v.tensor.str()));
    v.tensor.require_dense();
    s.parameters.push_back(parameter_of(v));
  }
  s.values = std::move(values);
  std::vector<std::string> lines;
  for (const NamedTensor& v : s.values) lines.push_back(fmt::format("{} {}", v.name, v.tensor.str()));
  require_same_list(*s.comm, lines, "tensors");
  std::vector<nn::Parameter*> list;
  for (const auto& p : s.parameters) list.push_back(p.get());
  s.engine = std::make_unique<parallel::BucketEngine>(list, s.comm, options, s.stream);
  s.stream.synchronize();
  s.take_values(/*first=*/true);
  s.optimizer = make_optimizer(config, s.engine->flat(), s.stream);
  s.stream.synchronize();
}

TensorOptimizer::~TensorOptimizer() = default;

TensorStepResult TensorOptimizer::step(const std::vector<NamedTensor>& gradients, const TensorStep& options) {
  Impl& s = *impl_;
  std::vector<std::string> lines;
  for (const NamedTensor& g : gradients) lines.push_back(fmt::format("{} {}", g.name, g.tensor.str()));
  require_same_list(*s.comm, lines, "gradients");
  s.check(gradients);
  if (!(options.loss_scale > 0) || !std::isfinite(options.loss_scale))
    throw ConfigError(fmt::format("loss_scale = {}: expected a finite number above 0", options.loss_scale));
  if (!std::isfinite(options.lr) || options.lr < 0)
    throw ConfigError(fmt::format("lr = {}: expected a finite number, 0 or more", options.lr));
  s.take_values(/*first=*/false);
  s.engine->begin_step();
  s.take_gradients(gradients);
  nn::GradientSink* sink = s.engine->sink(0, true);
  for (std::size_t i = s.parameters.size(); i-- > 0;) sink->ready(*s.parameters[i], 0);
  s.engine->end_shard(0);
  s.engine->finish();
  const double unscale = 1 / (options.loss_scale * (options.average ? s.comm->size() : 1));
  TensorStepResult result;
  result.grad_norm = grad_norm(s.engine->flat(), s.stream) * unscale;
  result.skipped = !std::isfinite(result.grad_norm);
  const std::uint64_t number = s.batch++;
  if (result.skipped) return result;
  s.optimizer->step(s.stream, {options.lr, unscale * clip_factor(result.grad_norm, options.max_norm),
                               options.seed, number});
  s.stream.synchronize();
  for (std::size_t i = 0; i < s.values.size(); ++i)
    if (const Tensor& v = s.values[i].tensor; v.nbytes() > 0)
      std::memcpy(v.data(), s.stored(i).data(), static_cast<std::size_t>(v.nbytes()));
  return result;
}

std::int64_t TensorOptimizer::applied() const { return impl_->optimizer->applied(); }

std::vector<TensorOptimizer::StateTensor> TensorOptimizer::state() const {
  std::vector<StateTensor> all;
  for (const Optimizer::LogicalState& l : impl_->optimizer->logical_state()) {
    const NamedTensor& v = impl_->values[static_cast<std::size_t>(l.logical)];
    const bool elements = l.tensor.numel() == v.tensor.numel() && l.kind != "rows" && l.kind != "columns";
    all.push_back({v.name, l.kind, elements ? l.tensor.view(v.tensor.shape()) : l.tensor});
  }
  return all;
}

void TensorOptimizer::load_state(std::int64_t applied, const std::vector<StateTensor>& given) {
  std::map<std::pair<std::string, std::string>, const Tensor*> by_name;
  for (const StateTensor& g : given)
    if (!by_name.emplace(std::pair{g.value, g.kind}, &g.tensor).second)
      throw ConfigError(fmt::format("the state has {} of {} twice", g.kind, g.value));
  const std::vector<StateTensor> mine = state();
  for (const StateTensor& m : mine) {
    const auto found = by_name.find({m.value, m.kind});
    if (found == by_name.end()) throw ConfigError(fmt::format("the state has no {} of {}", m.kind, m.value));
    const Tensor& t = *found->second;
    if (!t.defined() || t.dtype() != DType::f32 || !(t.shape() == m.tensor.shape()))
      throw ConfigError(fmt::format("the state's {} of {}: expected f32{}, got {}", m.kind, m.value,
                                    m.tensor.shape().str(), t.str()));
    t.require_dense();
  }
  if (by_name.size() != mine.size())
    for (const StateTensor& g : given) {
      bool known = false;
      for (const StateTensor& m : mine) known = known || (m.value == g.value && m.kind == g.kind);
      if (!known)
        throw ConfigError(
            fmt::format("the state has {} of {}, which this optimizer does not", g.kind, g.value));
    }
  impl_->optimizer->set_applied(applied);
  for (const StateTensor& m : mine)
    if (m.tensor.nbytes() > 0)
      std::memcpy(m.tensor.data(), by_name.at({m.value, m.kind})->data(),
                  static_cast<std::size_t>(m.tensor.nbytes()));
}

}  // namespace shoal::optim
