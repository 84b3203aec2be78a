// The products of a split layer, piece by piece, and its sums over pieces.
#include "support/plain/model.hpp"

namespace shoal::plain {

const float* Model::value(const std::string& name) const {
  const auto it = values.find(name);
  return it == values.end() ? nullptr : it->second.data();
}

// x [M, in] -> [pieces][M, width], + bias.
Vec Model::column(const Vec& x, const std::string& name, std::int64_t pieces, std::int64_t width,
                  std::int64_t in) const {
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / in;
  const float *w = value(name + ".weight"), *bias = value(name + ".bias");
  Vec y(pieces * rows * width);
  for (std::int64_t p = 0; p < pieces; ++p) {
    float* out = &y[p * rows * width];
    product(loop_, false, true, rows, width, in, x.data(), w + p * width * in, out, false);
    for (std::int64_t i = 0; bias && i < rows * width; ++i) out[i] = out[i] + bias[p * width + i % width];
  }
  return y;
}

// x [pieces][M, in] -> the tree's sum over pieces, [M, hidden]; the bias is added by residual().
Vec Model::row_sum(const Vec& x, const std::string& name, std::int64_t pieces, std::int64_t in) const {
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / (pieces * in);
  std::vector<Vec> terms(pieces, Vec(rows * c_.hidden));
  for (std::int64_t p = 0; p < pieces; ++p)
    product(loop_, false, true, rows, c_.hidden, in, &x[p * rows * in],
            value(name + ".weight") + p * c_.hidden * in, terms[p].data(), false);
  tree(terms);
  return terms[0];
}

// dy [pieces][M, width] -> [M, in], pieces by the tree.
Vec Model::input_gradient(const Vec& dy, const std::string& name, std::int64_t pieces, std::int64_t width,
                          std::int64_t in) const {
  const std::int64_t rows = static_cast<std::int64_t>(dy.size()) / (pieces * width);
  std::vector<Vec> terms(pieces, Vec(rows * in));
  for (std::int64_t p = 0; p < pieces; ++p)
    product(loop_, false, false, rows, in, width, &dy[p * rows * width],
            value(name + ".weight") + p * width * in, terms[p].data(), false);
  tree(terms);
  return terms[0];
}

void Model::column_gradients(const Vec& x, const Vec& dy, const std::string& name, std::int64_t pieces,
                             std::int64_t width, std::int64_t in, Grads& grads, bool accumulate) const {
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / in;
  for (std::int64_t p = 0; p < pieces; ++p) {
    product(loop_, true, false, width, in, rows, &dy[p * rows * width], x.data(),
            &grads.at(name + ".weight")[0][p * width * in], accumulate);
    if (value(name + ".bias"))
      bias_gradient(&dy[p * rows * width], rows, width, &grads.at(name + ".bias")[0][p * width], accumulate);
  }
}

// dz [M, hidden] -> dx [pieces][M, in]; the bias has a part for each token shard.
Vec Model::row_backward(const Vec& x, const Vec& dz, const std::string& name, std::int64_t pieces,
                        std::int64_t in, Grads& grads, bool accumulate) const {
  const std::int64_t rows = static_cast<std::int64_t>(dz.size()) / c_.hidden;
  Vec dx(pieces * rows * in);
  for (std::int64_t p = 0; p < pieces; ++p) {
    product(loop_, true, false, c_.hidden, in, rows, dz.data(), &x[p * rows * in],
            &grads.at(name + ".weight")[0][p * c_.hidden * in], accumulate);
    product(loop_, false, false, rows, in, c_.hidden, dz.data(), value(name + ".weight") + p * c_.hidden * in,
            &dx[p * rows * in], false);
  }
  if (value(name + ".bias")) {
    std::vector<Vec>& parts = grads.at(name + ".bias");
    const std::int64_t shard = rows / static_cast<std::int64_t>(parts.size());
    for (std::size_t s = 0; s < parts.size(); ++s)
      bias_gradient(&dz[s * shard * c_.hidden], shard, c_.hidden, parts[s].data(), accumulate);
  }
  return dx;
}

// x + dropout(z + bias); `first` is the index of the first element in the global batch.
Vec Model::residual(const Vec& x, const Vec& z, const std::string& bias, const Drop& drop,
                    std::uint64_t first) const {
  const float* b = value(bias);
  Vec y(x.size());
  for (std::size_t e = 0; e < x.size(); ++e)
    y[e] = x[e] + drop(b ? z[e] + b[e % c_.hidden] : z[e], first + e);
  return y;
}

Vec Model::norm(const Vec& x, const std::string& name, NormSaved& saved) const {
  return norm_forward(x, c_.hidden, value(name + ".weight"), value(name + ".bias"),
                      static_cast<float>(c_.norm_eps), saved);
}

Vec Model::norm_gradient(const Vec& dy, const std::string& name, const NormSaved& saved, const Vec* dres,
                         Grads& grads, bool accumulate) const {
  return norm_backward(dy, saved, c_.hidden, value(name + ".weight"), dres, grads.at(name + ".weight"),
                       gpt() ? &grads.at(name + ".bias") : nullptr, accumulate);
}

}  // namespace shoal::plain
