// Whole logical tensors, row-major, from and to the flat buffers: for optimizers that need more than elements. So that
// neither fusing nor pieces change the mathematics.
#pragma once
#include <vector>

#include "optim/runs.hpp"

namespace shoal::optim {

class LogicalTensors {
 public:
  LogicalTensors(const parallel::FlatParameters& flat, const std::vector<Logical>& tensors);
  std::int64_t count() const { return static_cast<std::int64_t>(parts_.size()); }
  const Shape& shape(std::int64_t logical) const { return shapes_[static_cast<std::size_t>(logical)]; }
  const std::vector<Part>& parts(std::int64_t logical) const {
    return parts_[static_cast<std::size_t>(logical)];
  }
  // f32 [numel rounded up to a chunk], the tail zero, in stream order; `flat` [layout.numel] is f32, bf16 or f16.
  Tensor gather(const Stream& stream, std::int64_t logical, const Tensor& flat) const;
  void scatter(const Stream& stream, std::int64_t logical, const Tensor& dense, const Tensor& flat) const;

 private:
  std::vector<Shape> shapes_;
  std::vector<std::vector<Part>> parts_;
};

// The sum of squares of x [a multiple of a chunk]: chunks in FP64, then the tree (R8). Waits for the stream.
double sum_of_squares(const Stream& stream, const Tensor& x);
// The tree's sum of x[0..n): its root's left half holds the largest power of two below n (shard/tree.hpp).
double tree_sum(const double* x, std::int64_t n);

}  // namespace shoal::optim
