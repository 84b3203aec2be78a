#include "shoal/models/config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "shoal/core/error.hpp"

namespace shoal::models {
namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t most_layers =
    4000;  // random numbers name a logical tensor, some 16 a layer, by 16 bits

void in_range(const char* key, std::int64_t value, std::int64_t low, std::int64_t high = largest) {
  if (value < low || value > high)
    throw ConfigError(fmt::format("model.{} = {}: expected {} to {}", key, value, low, high));
}

// The divisors of n that are nearest to `wanted`, ascending, at most six.
std::vector<std::int64_t> divisors_near(std::int64_t n, std::int64_t wanted) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d * d <= n; ++d)
    if (n % d == 0) {
      all.push_back(d);
      if (d != n / d) all.push_back(n / d);
    }
  const auto distance = [&](std::int64_t d) { return std::abs(d - wanted); };
  std::sort(all.begin(), all.end(), [&](auto a, auto b) { return distance(a) < distance(b); });
  if (all.size() > 6) all.resize(6);
  std::sort(all.begin(), all.end());
  return all;
}

void check_heads(const ModelConfig& c) {
  if (c.hidden % c.heads != 0)
    throw ConfigError(
        fmt::format("model.hidden = {} is not divisible by model.heads = {}: head counts that divide it, "
                    "near that one, are {}",
                    c.hidden, c.heads, fmt::join(divisors_near(c.hidden, c.heads), ", ")));
  if (c.heads % c.kv_heads != 0)
    throw ConfigError(
        fmt::format("model.heads = {} is not divisible by model.kv_heads = {}: key/value head counts that "
                    "divide it, near that one, are {}",
                    c.heads, c.kv_heads, fmt::join(divisors_near(c.heads, c.kv_heads), ", ")));
}

}  // namespace

ModelConfig ModelConfig::resolved() const {
  ModelConfig c = *this;
  in_range("layers", c.layers, 1, most_layers);
  in_range("hidden", c.hidden, 1);
  in_range("heads", c.heads, 1);
  in_range("kv_heads", c.kv_heads, 0);
  in_range("ffn_hidden", c.ffn_hidden, 0);
  in_range("vocab", c.vocab, 1);
  in_range("seq", c.seq, 1);
  if (c.tensor < 1 || c.tensor > largest)
    throw ConfigError(fmt::format("{} logical tensor pieces: expected 1 to {}", c.tensor, largest));
  if (!(c.dropout >= 0 && c.dropout < 1))
    throw ConfigError(fmt::format("model.dropout = {}: expected 0 or more and less than 1", c.dropout));
  if (!(static_cast<float>(c.norm_eps) > 0 && c.norm_eps < 1))  // as the kernels read it
    throw ConfigError(
        fmt::format("model.norm_eps = {}: expected more than 0 (in FP32) and less than 1", c.norm_eps));
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  check_heads(c);
  if (c.type == ModelType::gpt) {
    if (c.kv_heads != c.heads)
      throw ConfigError(
          fmt::format("model.kv_heads = {} with model.heads = {}: a GPT has as many of one as of the "
                      "other (grouped queries are Llama's)",
                      c.kv_heads, c.heads));
    if (c.ffn_hidden == 0) c.ffn_hidden = 4 * c.hidden;
  } else {
    if (c.head_dim() % 2 != 0)
      throw ConfigError(
          fmt::format("model.hidden = {} / model.heads = {} gives heads of {} elements: rotary position "
                      "embedding needs an even number",
                      c.hidden, c.heads, c.head_dim()));
    if (!(c.rope_theta > 0) || !std::isfinite(c.rope_theta))
      throw ConfigError(fmt::format("model.rope_theta = {}: expected a positive number", c.rope_theta));
    if (c.dropout != 0)
      throw ConfigError(fmt::format("model.dropout = {}: a Llama has none, expected 0", c.dropout));
    if (c.ffn_hidden == 0) c.ffn_hidden = ((8 * c.hidden + 2) / 3 + 31) / 32 * 32;
  }
  in_range("ffn_hidden", c.ffn_hidden, 1);
  return c;
}

}  // namespace shoal::models
