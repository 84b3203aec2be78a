// Memory of a model's own, and initial values (docs/numerics.md, R10).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/core/random.hpp"
#include "shoal/models/model.hpp"
#include "shoal/ops/cast.hpp"

namespace shoal::models {
namespace {

constexpr double deviation = 0.02;

// The second matrices of the two blocks write to the residual stream.
bool is_residual_projection(const std::string& name) {
  for (const char* end : {".attn.proj.weight", ".mlp.proj.weight", ".o_proj.weight", ".down_proj.weight"})
    if (name.ends_with(end)) return true;
  return false;
}

// Elements are independent: any split over threads gives the same bits.
void fill_normal(std::vector<float>& values, const RandomKey& key, double scale) {
  const auto n = static_cast<std::int64_t>(values.size());
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
  for (std::int64_t i = 0; i < n; ++i) values[i] = static_cast<float>(key.normal(i) * scale);
}

// Rounded once where values are narrower than FP32.
void set_value(nn::Parameter& p, std::vector<float>& stored, const Stream& stream) {
  const DType type = p.value.dtype();
  if (type != DType::f32) {
    std::vector<std::uint16_t> narrow(stored.size());
    ops::cast(DType::f32, stored.data(), type, narrow.data(), p.numel());
    copy(stream, Tensor::from_blob(narrow.data(), p.shape, type, {}), p.value);
    stream.synchronize();
    return;
  }
  copy(stream, Tensor::from_blob(stored.data(), p.shape, type, {}), p.value);
  stream.synchronize();
}

}  // namespace

void bind_parameters(LanguageModel& model, const Stream& stream, DType param_dtype) {
  for (nn::Parameter* p : model.parameters()) {
    p->value = Tensor::zeros(p->shape, param_dtype, stream);
    p->grad.clear();
    for (std::int64_t part = 0; part < p->parts; ++part)
      p->grad.push_back(Tensor::zeros(p->shape, DType::f32, stream));
  }
}

void initialize(LanguageModel& model, std::uint64_t seed, const Stream& stream) {
  const double residual = deviation / std::sqrt(2.0 * static_cast<double>(model.config().layers));
  std::uint32_t index = 0;  // of the logical tensor, in model order
  std::vector<float> stored, logical;
  for (nn::Parameter* p : model.parameters()) {
    stored.assign(p->numel(), 0.0f);
    for (std::size_t i = 0; i < p->placement.logical.size(); ++i, ++index) {
      const shard::LogicalTensor& t = p->placement.logical[i];
      logical.assign(t.shape.numel(), 0.0f);
      if (p->kind == nn::ParameterKind::norm) {
        if (t.name.ends_with(".weight")) std::fill(logical.begin(), logical.end(), 1.0f);
      } else if (p->kind != nn::ParameterKind::bias) {
        fill_normal(logical, {seed, Purpose::init, 0, index},
                    is_residual_projection(t.name) ? residual : deviation);
      }
      shard::scatter_logical(p->placement, static_cast<int>(i), logical.data(), stored.data());
    }
    set_value(*p, stored, stream);
  }
}

}  // namespace shoal::models
