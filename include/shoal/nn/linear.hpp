// Linear layers over piece-major tensors (docs/numerics.md, R2): the blocks of a model are made of them. They keep
// nothing between calls; what backward needs is passed in.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shoal/nn/context.hpp"
#include "shoal/nn/memory.hpp"

namespace shoal::nn {

// An output of a (fused) linear layer: the logical tensors are `name`.weight [out, in] and `name`.bias [out].
struct LinearOutput {
  std::string name;
  std::int64_t out = 0;
};

// y[p] = x W[p]^T + b[p]: the outputs are in pieces, several of them fused inside a piece.
// Weight [pieces, sum of out / pieces, in]; bias [pieces, sum of out / pieces].
class ColumnLinear {
 public:
  // Throws ConfigError where an output does not divide into `pieces`.
  ColumnLinear(const std::string& name, const std::vector<LinearOutput>& outputs, std::int64_t in,
               std::int64_t pieces, bool bias);

  std::vector<Parameter*> parameters();
  const Tensor& weight() const { return weight_.value; }
  const Tensor& bias() const { return bias_ ? bias_->value : none_; }
  std::int64_t pieces() const { return weight_.shape[0]; }
  std::int64_t piece_width() const { return weight_.shape[1]; }
  std::int64_t inputs() const { return weight_.shape[2]; }

  Tensor forward(const Tensor& x, const Microbatch& mb) const;          // [M, in] -> [pieces, M, piece_width]
  Tensor backward_input(const Tensor& dy, const Microbatch& mb) const;  // -> [M, in]
  // The pieces' terms of it, not yet summed: f32 [pieces, M, in].
  Tensor backward_input_terms(const Tensor& dy, const Microbatch& mb) const;
  void backward_weight(const Tensor& x, const Tensor& dy, const Microbatch& mb);
  void count_backward_input(MemoryMeter& meter, std::int64_t tokens) const;  // the result stays on the meter

 private:
  Parameter weight_;
  std::optional<Parameter> bias_;
  Tensor none_;
};

// z = the tree's sum over pieces of x[p] W[p]^T: the inputs are in pieces. Weight [pieces, out, in / pieces].
// The bias, [1, out] with a gradient a token shard, is not added here but with the residual.
class RowLinear {
 public:
  RowLinear(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t pieces, bool bias,
            std::int64_t token_shards);

  std::vector<Parameter*> parameters();
  const Tensor& weight() const { return weight_.value; }
  std::int64_t pieces() const { return weight_.shape[0]; }
  std::int64_t outputs() const { return weight_.shape[1]; }
  std::int64_t piece_width() const { return weight_.shape[2]; }

  // y = residual + dropout(z + bias), in memory of its own.   x [pieces, M, piece_width]; residual, y [M, out].
  Tensor forward(const Tensor& x, const Tensor& residual, const ops::Dropout& dropout,
                 const Microbatch& mb) const;
  // dz [M, out], after the dropout's backward -> [pieces, M, piece_width]
  Tensor backward_input(const Tensor& dz, const Microbatch& mb) const;
  void backward_weight(const Tensor& x, const Tensor& dz, const Microbatch& mb);
  void count_forward(MemoryMeter& meter, std::int64_t tokens) const;  // the result stays on the meter

 private:
  Parameter weight_;
  std::optional<Parameter> bias_;
};

// Rows [s M / S, (s+1) M / S) of t [M, ...]: token shard s of S. Throws ShapeError where M does not divide.
Tensor token_shard(const Tensor& t, std::int64_t shard, std::int64_t shards);

}  // namespace shoal::nn
