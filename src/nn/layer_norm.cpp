#include "nn/parameter.hpp"
#include "shoal/nn/linear.hpp"
#include "shoal/nn/norm.hpp"
#include "shoal/ops/norm.hpp"

namespace shoal::nn {
namespace {

class LayerNorm final : public Norm {
 public:
  LayerNorm(const std::string& name, std::int64_t hidden, double eps, std::int64_t token_shards)
      : name_(name), eps_(static_cast<float>(eps)) {
    for (Parameter* p : {&weight_, &bias_}) {
      const std::string full = name + (p == &weight_ ? ".weight" : ".bias");
      *p = make_parameter(full, ParameterKind::norm, shard::Placement::whole(full, {hidden}), {1, hidden},
                          token_shards);
    }
  }
  const std::string& name() const override { return name_; }
  std::vector<Parameter*> parameters() override { return {&weight_, &bias_}; }
  int statistics() const override { return 2; }
  std::int64_t backward_scratch(std::int64_t tokens) const override {
    return ops::norm_backward_scratch(tokens / weight_.parts, weight_.shape[1], /*bias=*/true);
  }

  Tensor forward(const Tensor& x, std::vector<Tensor>& saved, const Microbatch& mb) const override {
    Tensor y = mb.activation(x.shape());
    const Tensor mean = mb.empty({x.dim(0)}), rstd = mb.empty({x.dim(0)});
    ops::layer_norm_forward(mb.stream, x, weight_.value.select(0), bias_.value.select(0), eps_, y, mean,
                            rstd);
    saved.push_back(mean);
    saved.push_back(rstd);
    mb.observe("activation", name_, y);
    return y;
  }

  void backward(const Tensor& dy, const Tensor& x, const Tensor* statistics, const Tensor& dres,
                const Microbatch& mb) override {
    const std::int64_t n = weight_.parts;
    for (std::int64_t s = 0; s < n; ++s) {
      const Tensor dx = token_shard(dy, s, n);
      ops::layer_norm_backward(mb.stream, dx, token_shard(x, s, n), weight_.value.select(0),
                               token_shard(statistics[0], s, n), token_shard(statistics[1], s, n),
                               dres.defined() ? token_shard(dres, s, n) : Tensor(), dx, weight_.grad[s],
                               bias_.grad[s], mb.accumulate);
      mb.ready(bias_, s);
      mb.ready(weight_, s);
    }
    mb.observe("gradient", name_, dy);
  }

 private:
  std::string name_;
  float eps_;
  Parameter weight_, bias_;
};

}  // namespace

std::unique_ptr<Norm> layer_norm(const std::string& name, std::int64_t hidden, double eps,
                                 std::int64_t token_shards) {
  return std::make_unique<LayerNorm>(name, hidden, eps, token_shards);
}

}  // namespace shoal::nn
