// A trainable tensor and its gradient.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/core/tensor.hpp"
#include "shoal/shard/placement.hpp"

namespace shoal::nn {

// What parameter groups go by. A head is the output matrix of a model that does not share its embedding.
enum class ParameterKind : unsigned char { matrix, embedding, norm, bias, head };

// The tensors are views into flat buffers that the bucket engine or the optimizer-state manager owns; a model
// is built without memory and gets it when it is bound (parallel/data). value is stored piece-major,
// [pieces, ...], and the bucket engine pads each piece to a multiple of 256 elements, so that pieces may lie apart
// (Tensor::leading_stride) and never touch each other's padding; its names, shapes and padding in the logical model are in the placement.
//
// A gradient has one accumulator for each `part`: the T token shards of a norm or row-parallel bias, or the two
// uses of a tied embedding (R5 d, e). A part is a gradient of the whole stored tensor; after the reduction over
// the data axis parts are combined by the tree into part 0.
struct Parameter {
  std::string name;  // of the stored tensor: "blocks.0.attention.qkv.weight"
  ParameterKind kind = ParameterKind::matrix;
  shard::Placement placement;
  Shape shape;  // of `value`, the leading extent being the piece
  std::int64_t parts = 1;
  Tensor value;
  std::vector<Tensor> grad;  // one a part, each of shape `shape`

  std::int64_t pieces() const { return shape[0]; }
  std::int64_t numel() const { return shape.numel(); }
};

// Told by a module that the gradient of part `part` of p for the current microbatch is complete.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  virtual void ready(Parameter& p, std::int64_t part) = 0;
};

}  // namespace shoal::nn
