// Every optimizer as loops in FP64 over one logical tensor, from the papers alone; what the tests of src/optim compare
// with. Gradients are given already scaled.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/optim/optimizer.hpp"

namespace shoal::test {

using Numbers = std::vector<double>;

// A logical tensor, the settings that hold for it, and what its optimizer remembers.
struct ReferenceTensor {
  std::int64_t rows = 0, columns = 1;
  int rank = 1;
  bool hidden_matrix = false;  // muon's
  double lr_scale = 1, decay = 0, beta1 = 0, beta2 = 0, eps = 0, momentum = 0;
  Numbers p;
  Numbers m = {}, v = {}, row_average = {}, column_average = {};
};

inline double root_mean_square(const Numbers& x) {
  double sum = 0;
  for (const double e : x) sum += e * e;
  return x.empty() ? 0.0 : std::sqrt(sum / static_cast<double>(x.size()));
}

// The Newton-Schulz steps of Jordan et al. 2024 on x [rows, columns], whichever is larger.
inline void orthogonalize(Numbers& x, std::int64_t rows, std::int64_t columns, std::int64_t steps) {
  const double norm = root_mean_square(x) * std::sqrt(static_cast<double>(x.size()));
  for (double& e : x) e /= norm + 1e-7;
  const auto product = [](const Numbers& a, const Numbers& b, std::int64_t m, std::int64_t k,
                          std::int64_t n) {
    Numbers c(static_cast<std::size_t>(m * n), 0.0);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t l = 0; l < k; ++l)
        for (std::int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + l] * b[l * n + j];
    return c;
  };
  for (std::int64_t step = 0; step < steps; ++step) {
    Numbers transposed(x.size());
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) transposed[j * rows + i] = x[i * columns + j];
    const Numbers a = product(x, transposed, rows, columns, rows), a2 = product(a, a, rows, rows, rows);
    Numbers polynomial(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) polynomial[i] = -4.7750 * a[i] + 2.0315 * a2[i];
    const Numbers more = product(polynomial, x, rows, rows, columns);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] + more[i];
  }
}

class ReferenceOptimizer {
 public:
  explicit ReferenceOptimizer(const optim::OptimizerConfig& config) : c_(config) {}

  // Update number t (from 1) of one tensor.
  void step(ReferenceTensor& x, const Numbers& g, double rate, int t) const {
    const double lr = rate * x.lr_scale;
    x.m.resize(x.p.size());
    x.v.resize(x.p.size());
    if (c_.type == "sgd") return sgd(x, g, lr, t);
    if (c_.type == "lion") return lion(x, g, lr);
    if (c_.type == "adafactor") return adafactor(x, g, lr, t);
    if (c_.type == "muon" && x.hidden_matrix) return muon(x, g, lr);
    if (c_.type == "lamb") return lamb(x, g, lr, t);
    const bool coupled = c_.type == "adam";
    for (std::size_t i = 0; i < g.size(); ++i) {
      const double u = adam(x, i, coupled ? g[i] + x.decay * x.p[i] : g[i], t);
      x.p[i] -= lr * u + (coupled ? 0.0 : lr * x.decay * x.p[i]);
    }
  }

 private:
  // Kingma, Ba 2015, algorithm 1: the bias-corrected direction of one element.
  static double adam(ReferenceTensor& x, std::size_t i, double g, int t) {
    x.m[i] = x.beta1 * x.m[i] + (1 - x.beta1) * g;
    x.v[i] = x.beta2 * x.v[i] + (1 - x.beta2) * g * g;
    const double m_hat = x.m[i] / (1 - std::pow(x.beta1, t)), v_hat = x.v[i] / (1 - std::pow(x.beta2, t));
    return m_hat / (std::sqrt(v_hat) + x.eps);
  }

  void sgd(ReferenceTensor& x, const Numbers& g, double lr, int t) const {
    for (std::size_t i = 0; i < g.size(); ++i) {
      const double d = g[i] + x.decay * x.p[i];
      x.m[i] = t == 1 ? d : x.momentum * x.m[i] + d;
      const double u = x.momentum == 0 ? d : c_.nesterov ? d + x.momentum * x.m[i] : x.m[i];
      x.p[i] -= lr * u;
    }
  }

  static void lion(ReferenceTensor& x, const Numbers& g, double lr) {
    for (std::size_t i = 0; i < g.size(); ++i) {
      const double c = x.beta1 * x.m[i] + (1 - x.beta1) * g[i];
      x.m[i] = x.beta2 * x.m[i] + (1 - x.beta2) * g[i];
      x.p[i] -= lr * ((c > 0) - (c < 0) + x.decay * x.p[i]);
    }
  }

  static void lamb(ReferenceTensor& x, const Numbers& g, double lr, int t) {
    Numbers u(g.size());
    for (std::size_t i = 0; i < g.size(); ++i) u[i] = adam(x, i, g[i], t) + x.decay * x.p[i];
    const double weight = root_mean_square(x.p), direction = root_mean_square(u);
    const double ratio = weight > 0 && direction > 0 ? weight / direction : 1.0;
    for (std::size_t i = 0; i < g.size(); ++i) x.p[i] -= lr * ratio * u[i];
  }

  void adafactor(ReferenceTensor& x, const Numbers& g, double lr, int t) const {
    const double beta = 1 - std::pow(t, -c_.decay_rate);
    Numbers u(g.size());
    if (x.rank == 2) {
      x.row_average.resize(static_cast<std::size_t>(x.rows));
      x.column_average.resize(static_cast<std::size_t>(x.columns));
      Numbers row(x.row_average.size(), 0.0), column(x.column_average.size(), 0.0);
      for (std::int64_t i = 0; i < x.rows; ++i)
        for (std::int64_t j = 0; j < x.columns; ++j) {
          const double square = std::pow(g[i * x.columns + j], 2) + 1e-30;
          row[i] += square;
          column[j] += square;
        }
      double total = 0;
      for (std::size_t i = 0; i < row.size(); ++i)
        total += x.row_average[i] = beta * x.row_average[i] + (1 - beta) * row[i];
      for (std::size_t j = 0; j < column.size(); ++j)
        x.column_average[j] = beta * x.column_average[j] + (1 - beta) * column[j];
      for (std::int64_t i = 0; i < x.rows; ++i)
        for (std::int64_t j = 0; j < x.columns; ++j)
          u[i * x.columns + j] =
              g[i * x.columns + j] / std::sqrt(x.row_average[i] * x.column_average[j] / total);
    } else {
      for (std::size_t i = 0; i < g.size(); ++i) {
        x.v[i] = beta * x.v[i] + (1 - beta) * (g[i] * g[i] + 1e-30);
        u[i] = g[i] / std::sqrt(x.v[i]);
      }
    }
    double rate = lr / std::max(1.0, root_mean_square(u) / c_.clip_threshold);
    if (c_.scale_parameter) rate *= std::max(1e-3, root_mean_square(x.p));
    for (std::size_t i = 0; i < g.size(); ++i) x.p[i] -= rate * u[i] + lr * x.decay * x.p[i];
  }

  void muon(ReferenceTensor& x, const Numbers& g, double lr) const {
    Numbers u(g.size());
    for (std::size_t i = 0; i < g.size(); ++i) {
      x.m[i] = x.momentum * x.m[i] + (1 - x.momentum) * g[i];
      u[i] = x.momentum * x.m[i] + (1 - x.momentum) * g[i];
    }
    orthogonalize(u, x.rows, x.columns, c_.newton_schulz_steps);
    const auto rows = static_cast<double>(x.rows), columns = static_cast<double>(x.columns);
    const double scale = c_.muon_scale == "original" ? std::sqrt(std::max(1.0, rows / columns))
                                                     : 0.2 * std::sqrt(std::max(rows, columns));
    for (std::size_t i = 0; i < g.size(); ++i) x.p[i] -= lr * (scale * u[i] + x.decay * x.p[i]);
  }

  optim::OptimizerConfig c_;
};

}  // namespace shoal::test
