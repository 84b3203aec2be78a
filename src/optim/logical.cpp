#include "optim/logical.hpp"

#include <bit>

#include "shoal/ops/cast.hpp"
#include "shoal/ops/optimizer.hpp"

namespace shoal::optim {
namespace {

std::int64_t columns(const Shape& s) { return s.rank() > 1 ? s[1] : 1; }

// Where a part lies in the dense tensor: rows `columns` elements apart.
Tensor place(const Tensor& dense, const Part& p, const Shape& shape) {
  const std::int64_t width = columns(shape), first = p.box.row * width + p.box.col;
  return dense.slice(first, shape.numel()).view({p.box.rows, p.box.cols}, width);
}

}  // namespace

LogicalTensors::LogicalTensors(const parallel::FlatParameters& flat, const std::vector<Logical>& tensors)
    : parts_(tensors.size()) {
  for (const Logical& t : tensors)
    shapes_.push_back(
        flat.parameters[static_cast<std::size_t>(t.parameter)]->placement.logical[t.tensor].shape);
  for (const Part& p : parts_of(flat)) parts_[static_cast<std::size_t>(p.logical)].push_back(p);
}

Tensor LogicalTensors::gather(const Stream& stream, std::int64_t logical, const Tensor& flat) const {
  const Shape& s = shape(logical);
  const std::int64_t n = s.numel(), padded = shard::round_up(n, shard::chunk);
  const Tensor own = Tensor::empty({padded}, flat.dtype(), stream);
  fill_zero(stream, own.slice(n, padded));
  for (const Part& p : parts(logical))
    copy(stream, flat.slice(p.elements.first, p.elements.last).view({p.box.rows, p.box.cols}),
         place(own, p, s));
  if (flat.dtype() == DType::f32) return own;
  Tensor wide = Tensor::empty({padded}, DType::f32, stream);
  ops::convert(stream, own, wide);
  return wide;
}

void LogicalTensors::scatter(const Stream& stream, std::int64_t logical, const Tensor& dense,
                             const Tensor& flat) const {
  for (const Part& p : parts(logical))
    copy(stream, place(dense, p, shape(logical)),
         flat.slice(p.elements.first, p.elements.last).view({p.box.rows, p.box.cols}));
}

double tree_sum(const double* x, std::int64_t n) {
  if (n == 0) return 0.0;
  if (n == 1) return x[0];
  const auto half = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n - 1)));
  return tree_sum(x, half) + tree_sum(x + half, n - half);
}

double sum_of_squares(const Stream& stream, const Tensor& x) {
  const std::int64_t chunks = x.numel() / shard::chunk;
  const Tensor sums = Tensor::empty({chunks}, DType::f64, stream);
  ops::chunk_sum_squares(stream, x, sums);
  std::vector<double> host(static_cast<std::size_t>(chunks));
  copy(stream, sums, Tensor::from_blob(host.data(), {chunks}, DType::f64, Device{}));
  stream.synchronize();
  return tree_sum(host.data(), chunks);
}

}  // namespace shoal::optim
