#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "shoal/core/error.hpp"
#include "shoal/core/random.hpp"
#include "shoal/core/text.hpp"
#include "shoal/models/model.hpp"

namespace shoal::models {
namespace {

void check(const ModelConfig& c, const std::vector<std::int32_t>& prompt, const SampleOptions& o) {
  if (prompt.empty()) throw ConfigError("an empty prompt: expected at least one token");
  for (std::size_t i = 0; i < prompt.size(); ++i)
    if (prompt[i] < 0 || prompt[i] >= c.vocab)
      throw ConfigError(
          fmt::format("token {} of the prompt is {}: the vocabulary has {}", i, prompt[i], c.vocab));
  if (o.count < 0) throw ConfigError(fmt::format("count = {}: expected 0 or more", o.count));
  if (!(o.temperature >= 0) || !std::isfinite(o.temperature))
    throw ConfigError(fmt::format("temperature = {}: expected 0 or more", o.temperature));
  if (o.top_k < 0) throw ConfigError(fmt::format("top_k = {}: expected 0 (all) or more", o.top_k));
}

// The most likely tokens first; equal ones by their number.
std::int32_t draw(const std::vector<float>& logits, const SampleOptions& o, double uniform) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](std::int32_t a, std::int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  if (o.temperature == 0) return *std::min_element(order.begin(), order.end(), before);
  const std::int64_t all = static_cast<std::int64_t>(order.size()),
                     k = o.top_k == 0 ? all : std::min(o.top_k, all);
  std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
  order.resize(k);
  std::vector<double> cumulative;
  double sum = 0;
  for (std::int32_t id : order)
    cumulative.push_back(sum += std::exp((double{logits[id]} - double{logits[order[0]]}) / o.temperature));
  const auto it = std::upper_bound(cumulative.begin(), cumulative.end(), uniform * sum);
  return order[std::min<std::int64_t>(it - cumulative.begin(), k - 1)];
}

}  // namespace

std::vector<std::int32_t> generate(LanguageModel& model, const std::vector<std::int32_t>& prompt,
                                   const SampleOptions& options, const Stream& stream) {
  check(model.config(), prompt, options);
  const std::int64_t seq = model.config().seq;
  const RandomKey key{options.seed, Purpose::sample, 0, 0};
  const std::unique_ptr<Decoder> decoder = model.decoder(stream);
  std::vector<std::int32_t> text = prompt, made;
  std::vector<float> host(model.config().vocab);
  // The window starts at `begin`; a long prompt is cut to what fits.
  std::int64_t begin = std::max<std::int64_t>(0, static_cast<std::int64_t>(text.size()) - seq), next = begin;
  Tensor logits;
  for (std::int64_t i = 0; i < options.count; ++i) {
    const auto length = static_cast<std::int64_t>(text.size());
    if (length - begin > seq) {
      begin = next = length - std::max<std::int64_t>(1, seq / 2);
      decoder->restart();
    }
    for (; next < length; ++next) logits = decoder->step(text[next]);
    copy(stream, logits, Tensor::from_blob(host.data(), logits.shape(), DType::f32, {}));
    stream.synchronize();
    // No order among such values, and so nothing to draw.
    if (const auto bad = std::find_if(host.begin(), host.end(), [](float x) { return !std::isfinite(x); });
        bad != host.end())
      throw DataError(
          fmt::format("generated token {}: the model's logit of token {} is {}: the weights are damaged, or "
                      "their training went wrong",
                      i, bad - host.begin(), shoal::text::number(*bad)));
    made.push_back(draw(host, options, key.uniform(i)));
    text.push_back(made.back());
  }
  return made;
}

}  // namespace shoal::models
