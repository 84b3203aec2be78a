// A GPT and a Llama, executed literally by the rules of docs/numerics.md: the reference that the library's bits are
// held against. Parameters are the library's stored (piece-major) arrays, by name.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "shoal/models/model.hpp"
#include "support/plain/layers.hpp"

namespace shoal::plain {

// Gradients by parameter name, one vector a part.
using Grads = std::map<std::string, std::vector<Vec>>;

struct Batch {
  std::uint64_t seed = 0, number = 0;
  std::int64_t first_sample = 0, samples = 0;
  std::vector<std::int32_t> tokens, targets;
  float scale = 1.0f;  // loss scale / count of valid tokens
  bool accumulate = false;
};

class Model {
 public:
  // Copies the values; `loop`: matrix products by plain loops (math.hpp).
  Model(models::LanguageModel& model, bool loop);
  std::map<std::string, Vec> values;
  Grads zero_grads() const;

  // One microbatch, forward and backward; returns the loss of each token.
  Vec microbatch(const Batch& b, Grads& grads) const;

 private:
  struct Block;
  const float* value(const std::string& name) const;  // null where there is no such parameter
  Vec column(const Vec& x, const std::string& name, std::int64_t pieces, std::int64_t width,
             std::int64_t in) const;
  Vec row_sum(const Vec& x, const std::string& name, std::int64_t pieces, std::int64_t in) const;
  Vec input_gradient(const Vec& dy, const std::string& name, std::int64_t pieces, std::int64_t width,
                     std::int64_t in) const;
  void column_gradients(const Vec& x, const Vec& dy, const std::string& name, std::int64_t pieces,
                        std::int64_t width, std::int64_t in, Grads& grads, bool accumulate) const;
  Vec row_backward(const Vec& x, const Vec& dz, const std::string& name, std::int64_t pieces, std::int64_t in,
                   Grads& grads, bool accumulate) const;
  Vec residual(const Vec& x, const Vec& z, const std::string& bias, const Drop& drop,
               std::uint64_t first) const;
  Vec attention_forward(const Vec& x, std::int64_t layer, Block& s, const Batch& b) const;
  Vec attention_backward(Vec dy, std::int64_t layer, Block& s, const Batch& b, Grads& grads) const;
  Vec mlp_forward(const Vec& x, std::int64_t layer, Block& s, const Batch& b) const;
  Vec mlp_backward(Vec dy, std::int64_t layer, Block& s, const Batch& b, Grads& grads) const;
  Vec norm(const Vec& x, const std::string& name, NormSaved& saved) const;
  Vec norm_gradient(const Vec& dy, const std::string& name, const NormSaved& saved, const Vec* dres,
                    Grads& grads, bool accumulate) const;
  Drop drop(Purpose purpose, std::int64_t layer, const Batch& b) const;
  bool gpt() const { return c_.type == models::ModelType::gpt; }
  std::string prefix(std::int64_t layer) const;

  models::ModelConfig c_;
  bool loop_;
  std::map<std::string, std::pair<Shape, std::int64_t>> shapes_;  // stored shape and parts
};

}  // namespace shoal::plain
