// The feed-forward blocks, from the norm before to the residual addition after.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shoal/nn/linear.hpp"
#include "shoal/nn/module.hpp"
#include "shoal/nn/norm.hpp"

namespace shoal::nn {

struct MlpConfig {
  std::string name;  // "blocks.0.mlp"
  std::int64_t hidden = 0, ffn_hidden = 0;
  std::int64_t tensor = 1;  // logical tensor pieces: the inner width is in gcd(tensor, ffn_hidden)
  double dropout = 0;       // on the output
  std::uint32_t layer = 0;
};

// y = x + dropout(proj(gelu(fc(norm(x))))), with biases (GPT-2).
class GeluMlpBlock final : public Module {
 public:
  GeluMlpBlock(const MlpConfig& config, std::unique_ptr<Norm> norm);
  const std::string& name() const override { return config_.name; }
  std::vector<Parameter*> parameters() override;
  Tensor forward(const Tensor& x, Saved& saved, const Microbatch& mb) override;
  Tensor backward_input(Tensor dy, Saved& saved, const Microbatch& mb) override;
  void backward_weight(Saved& saved, const Microbatch& mb) override;
  Tensor backward(Tensor dy, Saved& saved, const Microbatch& mb) override;
  std::int64_t saved_bytes(std::int64_t samples, std::int64_t seq, DType activations) const override;
  void count_forward(MemoryMeter& meter, std::int64_t samples, std::int64_t seq) const override;
  void count_backward(MemoryMeter& meter, std::int64_t samples, std::int64_t seq) const override;

 private:
  Tensor run_backward(Tensor dy, Saved& saved, const Microbatch& mb, bool weights);

  MlpConfig config_;
  std::unique_ptr<Norm> norm_;
  ColumnLinear fc_;
  RowLinear proj_;
};

// y = x + down(silu(gate(h)) * up(h)), h = norm(x), without biases (Llama); gate and up are fused inside a piece.
class SwigluMlpBlock final : public Module {
 public:
  SwigluMlpBlock(const MlpConfig& config, std::unique_ptr<Norm> norm);
  const std::string& name() const override { return config_.name; }
  std::vector<Parameter*> parameters() override;
  Tensor forward(const Tensor& x, Saved& saved, const Microbatch& mb) override;
  Tensor backward_input(Tensor dy, Saved& saved, const Microbatch& mb) override;
  void backward_weight(Saved& saved, const Microbatch& mb) override;
  Tensor backward(Tensor dy, Saved& saved, const Microbatch& mb) override;
  std::int64_t saved_bytes(std::int64_t samples, std::int64_t seq, DType activations) const override;
  void count_forward(MemoryMeter& meter, std::int64_t samples, std::int64_t seq) const override;
  void count_backward(MemoryMeter& meter, std::int64_t samples, std::int64_t seq) const override;

 private:
  Tensor run_backward(Tensor dy, Saved& saved, const Microbatch& mb, bool weights);

  MlpConfig config_;
  std::unique_ptr<Norm> norm_;
  ColumnLinear gate_up_;
  RowLinear down_;
};

}  // namespace shoal::nn
