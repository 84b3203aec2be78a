// Attention, a query at a time: keys upward in tiles of 64, the maximum and the sum rescaled tile by tile (R6).
#include <cmath>
#include <limits>

#include "support/plain/layers.hpp"

namespace shoal::plain {
namespace {

constexpr std::int64_t tile = 64;

// q is scaled, rounded, and then multiplied with k: dimensions upward from +0.
float score(const AttentionSize& s, const Heads& q, const Heads& k, std::int64_t head, std::int64_t kv,
            std::int64_t query, std::int64_t key) {
  float sum = 0.0f;
  for (std::int64_t d = 0; d < s.dim; ++d)
    sum = std::fma(k.at(kv, key, d), q.at(head, query, d) * s.scale, sum);
  return sum;
}

std::uint64_t place(const AttentionSize& s, std::int64_t sample, std::int64_t head, std::int64_t i,
                    std::int64_t j) {
  return static_cast<std::uint64_t>((((s.first_sample + sample) * s.heads + head) * s.seq + i) * s.seq + j);
}

}  // namespace

void attention_forward(const AttentionSize& s, Heads q, Heads k, Heads v, Heads o, Vec& lse) {
  lse.assign(s.samples * s.heads * s.seq, 0.0f);
  for (std::int64_t sample = 0; sample < s.samples; ++sample)
    for (std::int64_t head = 0; head < s.heads; ++head)
      for (std::int64_t i = 0; i < s.seq; ++i) {
        const std::int64_t kv = head / (s.heads / s.kv_heads), row = sample * s.seq;
        float most = -std::numeric_limits<float>::infinity(), sum = 0.0f;
        Vec out(s.dim, 0.0f);
        for (std::int64_t k0 = 0; k0 <= i; k0 += tile) {
          const std::int64_t end = std::min(k0 + tile, i + 1);
          Vec p;
          const float old = most;
          for (std::int64_t j = k0; j < end; ++j) {
            p.push_back(score(s, q, k, head, kv, row + i, row + j));
            most = std::max(most, p.back());
          }
          const float shrink = exp(old - most);
          sum = sum * shrink;
          for (std::int64_t j = k0; j < end; ++j) {
            float& x = p[j - k0];
            x = exp(x - most);
            sum = sum + x;
            x = s.drop(x, place(s, sample, head, i, j));
          }
          for (std::int64_t d = 0; d < s.dim; ++d) {
            if (k0 > 0) out[d] = out[d] * shrink;
            for (std::int64_t j = k0; j < end; ++j)
              out[d] = std::fma(v.at(kv, row + j, d), p[j - k0], out[d]);
          }
        }
        for (std::int64_t d = 0; d < s.dim; ++d) o.at(head, row + i, d) = out[d] / sum;
        lse[(sample * s.heads + head) * s.seq + i] = most + std::log(sum);
      }
}

void attention_backward(const AttentionSize& s, Heads q, Heads k, Heads v, Heads o, const Vec& lse, Heads d_o,
                        Heads dq, Heads dk, Heads dv) {
  const std::int64_t group = s.heads / s.kv_heads, size = s.seq * s.dim;
  for (std::int64_t sample = 0; sample < s.samples; ++sample)
    for (std::int64_t kv = 0; kv < s.kv_heads; ++kv) {
      const std::int64_t row = sample * s.seq;
      std::vector<Vec> sums_k, sums_v;  // one a query piece
      for (std::int64_t head = kv * group; head < (kv + 1) * group; ++head) {
        if (head == kv * group || head % q.per_piece == 0) {
          sums_k.emplace_back(size, 0.0f);
          sums_v.emplace_back(size, 0.0f);
        }
        Vec &to_k = sums_k.back(), &to_v = sums_v.back();
        for (std::int64_t i = 0; i < s.seq; ++i) {
          const float delta = lanes(s.dim, [&](float x, std::int64_t d) {
            return std::fma(d_o.at(head, row + i, d), o.at(head, row + i, d), x);
          });
          Vec to_q(s.dim, 0.0f);
          for (std::int64_t j = 0; j <= i; ++j) {
            const float p =
                exp(score(s, q, k, head, kv, row + i, row + j) - lse[(sample * s.heads + head) * s.seq + i]);
            float dp = 0.0f;
            for (std::int64_t d = 0; d < s.dim; ++d)
              dp = std::fma(v.at(kv, row + j, d), d_o.at(head, row + i, d), dp);
            const std::uint64_t at = place(s, sample, head, i, j);
            const float ds = p * (s.drop(dp, at) - delta), kept = s.drop(p, at);
            for (std::int64_t d = 0; d < s.dim; ++d) {
              to_q[d] = std::fma(k.at(kv, row + j, d), ds, to_q[d]);
              to_v[j * s.dim + d] = std::fma(kept, d_o.at(head, row + i, d), to_v[j * s.dim + d]);
              to_k[j * s.dim + d] = std::fma(ds, q.at(head, row + i, d) * s.scale, to_k[j * s.dim + d]);
            }
          }
          for (std::int64_t d = 0; d < s.dim; ++d) dq.at(head, row + i, d) = to_q[d] * s.scale;
        }
      }
      tree(sums_k);
      tree(sums_v);
      for (std::int64_t j = 0; j < s.seq; ++j)
        for (std::int64_t d = 0; d < s.dim; ++d) {
          dk.at(kv, row + j, d) = sums_k[0][j * s.dim + d];
          dv.at(kv, row + j, d) = sums_v[0][j * s.dim + d];
        }
    }
}

}  // namespace shoal::plain
