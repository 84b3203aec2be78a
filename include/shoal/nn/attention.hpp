// Causal self-attention, from the norm before it to the residual addition after it.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shoal/nn/linear.hpp"
#include "shoal/nn/module.hpp"
#include "shoal/nn/norm.hpp"
#include "shoal/ops/attention.hpp"

namespace shoal::nn {

// The angles of rotary position embedding, [seq, head_dim / 2] each, made at their first use and shared by a
// model's layers.
class Rotary {
 public:
  Rotary(std::int64_t seq, std::int64_t head_dim, double theta)
      : seq_(seq), head_dim_(head_dim), theta_(theta) {}
  // Rotates the heads in place; the first token of each sample has position `first`.
  void apply(const ops::HeadsView& x, std::int64_t heads, const Microbatch& mb, bool backward,
             std::int64_t first = 0);
  std::int64_t table_elements() const { return seq_ * (head_dim_ / 2); }  // of each of the two

 private:
  std::int64_t seq_, head_dim_;
  double theta_;
  Tensor cos_, sin_;
};

struct AttentionConfig {
  std::string name;                                  // "blocks.0.attn"
  std::string q = "q", k = "k", v = "v";             // logical weights: name + "." + q + ".weight"
  std::string out = "proj", qkv = "qkv", kv = "kv";  // ... and the stored, fused ones
  std::int64_t hidden = 0, heads = 0, kv_heads = 0;
  std::int64_t tensor = 1;  // logical tensor pieces
  bool bias = true;
  double dropout = 0;  // on probabilities and on the output
  std::uint32_t layer = 0;
};

// The projections to queries, keys and values. Heads are in gcd(tensor, heads) pieces and key/value heads in
// gcd(tensor, kv_heads); where these are equal all three are fused inside a piece, [q | k | v], else keys and
// values are a parameter of their own, [k | v], with fewer pieces (R6).
class QkvProjection {
 public:
  explicit QkvProjection(const AttentionConfig& config);
  bool fused() const { return !kv_; }
  std::vector<Parameter*> parameters();

  // Appends the activations [pieces, M, width] to `out`: one where fused, else that of q and that of k and v.
  void forward(const Tensor& x, std::vector<Tensor>& out, const Microbatch& mb) const;
  int activations() const { return fused() ? 1 : 2; }
  std::int64_t elements(int i, std::int64_t tokens) const;  // of activation i
  // Where the heads lie in such activations.
  struct Heads {
    ops::HeadsView q, k, v;
  };
  Heads heads(const Tensor* activations) const;

  // The input's gradient [M, hidden]. Where k and v are apart, their term is added to that of the first query
  // piece of their group, and then the query pieces are summed by the tree.
  Tensor backward_input(const Tensor* d_activations, const Microbatch& mb) const;
  void backward_weight(const Tensor& x, const Tensor* d_activations, const Microbatch& mb);
  void count_backward_input(MemoryMeter& meter, std::int64_t tokens) const;

 private:
  std::int64_t q_width_, kv_width_, head_dim_;  // widths in a piece of q's, of k's
  ColumnLinear q_;                              // fused: q, k and v
  std::optional<ColumnLinear> kv_;
};

// y = x + dropout(proj(attention(qkv(norm(x))))).
class AttentionBlock final : public Module {
 public:
  AttentionBlock(const AttentionConfig& config, std::unique_ptr<Norm> norm, std::shared_ptr<Rotary> rotary);
  const std::string& name() const override { return config_.name; }
  std::vector<Parameter*> parameters() override;
  Tensor forward(const Tensor& x, Saved& saved, const Microbatch& mb) override;
  Tensor backward_input(Tensor dy, Saved& saved, const Microbatch& mb) override;
  void backward_weight(Saved& saved, const Microbatch& mb) override;
  Tensor backward(Tensor dy, Saved& saved, const Microbatch& mb) override;
  std::int64_t saved_bytes(std::int64_t samples, std::int64_t seq, DType activations) const override;
  void count_forward(MemoryMeter& meter, std::int64_t samples, std::int64_t seq) const override;
  void count_backward(MemoryMeter& meter, std::int64_t samples, std::int64_t seq) const override;

  // One token of text generation, at `position`: x [1, hidden]; keys and values go to row `position` of the
  // caches, [rows, kv_heads x head_dim] each.
  Tensor decode(const Tensor& x, std::int64_t position, const Tensor& k_cache, const Tensor& v_cache,
                const Microbatch& mb);

 private:
  ops::AttentionShape shape(std::int64_t samples, std::int64_t seq) const;
  ops::HeadsView out_heads(const Tensor& o) const;
  Tensor run_backward(Tensor dy, Saved& saved, const Microbatch& mb, bool weights);
  const char* fused_name() const;  // of the projection of queries

  AttentionConfig config_;
  std::unique_ptr<Norm> norm_;
  std::shared_ptr<Rotary> rotary_;
  QkvProjection qkv_;
  RowLinear out_;
};

}  // namespace shoal::nn
