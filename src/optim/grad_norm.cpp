// The global gradient norm (R8). Chunk sums are FP64 and only one 256th as many as elements: every rank gets
// them all and evaluates the whole tree, so that the bits do not depend on who owns what.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "optim/logical.hpp"
#include "shoal/core/error.hpp"
#include "shoal/ops/optimizer.hpp"
#include "shoal/optim/optimizer.hpp"

namespace shoal::optim {
double grad_norm(const parallel::FlatParameters& flat, const Stream& stream) {
  const std::int64_t chunks = flat.layout.numel / shard::chunk;
  Tensor sums = Tensor::empty({chunks}, DType::f64, stream);
  if (flat.partitioned) fill_zero(stream, sums);
  for (const shard::Range& r : flat.owned)
    ops::chunk_sum_squares(stream, flat.grads.slice(r.first, r.last),
                           sums.slice(r.first / shard::chunk, r.last / shard::chunk));
  // Ranks own disjoint ranges of any sizes: a sum of squares and zeros is exact, so it gathers them.
  if (flat.partitioned) flat.comm->all_reduce_async(sums, sums, ReduceOp::sum, stream).synchronize();
  const Tensor host = Tensor::empty({chunks}, DType::f64, default_allocator({DeviceType::cpu, 0}));
  copy(stream, sums, host);
  stream.synchronize();

  const double* chunk = host.as<double>();
  std::vector<double> parameters, pieces;
  for (std::size_t s = 0; s < flat.layout.segments.size(); ++s) {
    const shard::Segment& segment = flat.layout.segments[s];
    pieces.push_back(tree_sum(chunk + segment.offset / shard::chunk, segment.padded() / shard::chunk));
    if (s + 1 < flat.layout.segments.size() && flat.layout.segments[s + 1].tensor == segment.tensor) continue;
    parameters.push_back(tree_sum(pieces.data(), static_cast<std::int64_t>(pieces.size())));
    pieces.clear();
  }
  return std::sqrt(tree_sum(parameters.data(), static_cast<std::int64_t>(parameters.size())));
}

double clip_factor(double norm, double max_norm) {
  if (!(max_norm >= 0))
    throw ConfigError(fmt::format("clipping to a norm of {}: expected 0 (off) or more", max_norm));
  if (max_norm == 0) return 1.0;
  const double factor = max_norm / (norm + 1e-6);
  return factor > 1.0 ? 1.0 : factor;  // NaN stays NaN
}

}  // namespace shoal::optim
