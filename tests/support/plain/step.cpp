#include "support/plain/step.hpp"

#include <cmath>

#include "shoal/ops/cross_entropy.hpp"

namespace shoal::plain {

Trainer::Trainer(models::LanguageModel& m, const StepSize& size, const optim::OptimizerConfig& optimizer,
                 bool loop)
    : model(m, loop), size_(size), optimizer_(optimizer), seq_(m.config().seq) {
  for (const nn::Parameter* p : m.parameters())
    order_.push_back({p->name, p->pieces(),
                      p->kind == nn::ParameterKind::matrix || p->kind == nn::ParameterKind::head,
                      Vec(p->numel()), Vec(p->numel())});
}

Trainer::Result Trainer::step(std::uint64_t number, const std::vector<std::int32_t>& tokens,
                              const std::vector<std::int32_t>& targets) {
  std::int64_t count = 0;
  for (std::int32_t t : targets) count += t != ops::ignored_token;
  const std::int64_t per_shard = size_.global_batch / size_.data_shards;
  std::vector<Grads> shards;
  std::vector<double> losses;
  for (std::int64_t v = 0; v < size_.data_shards; ++v) {
    shards.push_back(model.zero_grads());
    for (std::int64_t first = v * per_shard; first < (v + 1) * per_shard; first += size_.micro_batch) {
      Batch b;
      b.seed = size_.seed;
      b.number = number;
      b.first_sample = first;
      b.samples = size_.micro_batch;
      b.tokens.assign(&tokens[first * seq_], &tokens[first * seq_] + b.samples * seq_);
      b.targets.assign(&targets[first * seq_], &targets[first * seq_] + b.samples * seq_);
      b.scale = static_cast<float>(1.0 / static_cast<double>(count));
      b.accumulate = first > v * per_shard;
      const Vec loss = model.microbatch(b, shards.back());
      std::vector<double> blocks;
      for (std::size_t i = 0; i < loss.size(); i += 64) {
        double sum = loss[i];
        for (std::size_t j = i + 1; j < std::min(i + 64, loss.size()); ++j)
          sum = sum + static_cast<double>(loss[j]);
        blocks.push_back(sum);
      }
      const double sum = tree_of(blocks);
      if (b.accumulate)
        losses.back() = losses.back() + sum;
      else
        losses.push_back(sum);
    }
  }
  Grads grads;
  for (const Stored& p : order_) {
    std::vector<Vec> parts;
    for (std::size_t part = 0; part < shards[0].at(p.name).size(); ++part) {
      std::vector<Vec> of_shards;
      for (Grads& shard : shards) of_shards.push_back(shard.at(p.name)[part]);
      tree(of_shards);
      parts.push_back(of_shards[0]);
    }
    tree(parts);
    grads[p.name] = {parts[0]};
  }
  const double total = norm(grads);
  const double clip = size_.clip > 0 ? std::min(1.0, size_.clip / (total + 1e-6)) : 1.0;
  adamw(grads, clip);
  return {tree_of(losses) / static_cast<double>(count), total};
}

double Trainer::norm(const Grads& grads) const {
  std::vector<double> parameters;
  for (const Stored& p : order_) {
    const Vec& g = grads.at(p.name)[0];
    const std::int64_t piece = static_cast<std::int64_t>(g.size()) / p.pieces;
    std::vector<double> pieces;
    for (std::int64_t k = 0; k < p.pieces; ++k) {
      std::vector<double> chunks;
      for (std::int64_t first = 0; first < piece; first += 256) {
        double lane[16] = {};
        for (std::int64_t i = first; i < std::min(first + 256, piece); ++i) {
          const double x = g[k * piece + i];
          lane[(i - first) % 16] += x * x;
        }
        for (int half = 8; half > 0; half /= 2)
          for (int i = 0; i < half; ++i) lane[i] = lane[i] + lane[i + half];
        chunks.push_back(lane[0]);
      }
      pieces.push_back(tree_of(chunks));
    }
    parameters.push_back(tree_of(pieces));
  }
  return std::sqrt(tree_of(parameters));
}

void Trainer::adamw(const Grads& grads, double grad_scale) {
  const double t = static_cast<double>(++applied_);
  const auto f = [](double x) { return static_cast<float>(x); };
  const float beta1 = f(optimizer_.beta1), other1 = f(1 - optimizer_.beta1), beta2 = f(optimizer_.beta2),
              other2 = f(1 - optimizer_.beta2), eps = f(optimizer_.eps), scale = f(grad_scale);
  const float size = f(size_.lr / (1 - std::pow(optimizer_.beta1, t)));
  const float root = f(1 / std::sqrt(1 - std::pow(optimizer_.beta2, t)));
  for (Stored& p : order_) {
    const float decay = f(1 - size_.lr * (p.decays ? optimizer_.weight_decay : 0.0));
    Vec& w = model.values.at(p.name);
    const Vec& gradient = grads.at(p.name)[0];
    for (std::size_t i = 0; i < w.size(); ++i) {
      const float g = gradient[i] * scale;
      p.m[i] = std::fma(beta1, p.m[i], other1 * g);
      p.v[i] = std::fma(beta2, p.v[i], other2 * (g * g));
      w[i] = std::fma(-size, p.m[i] / std::fma(std::sqrt(p.v[i]), root, eps), w[i] * decay);
    }
  }
}

}  // namespace shoal::plain
