// Where the locally stored pieces of a logical tensor lie. A stored tensor is piece-major: each piece is
// dense, and is a list of strided boxes of the logical tensor (several where weights are fused inside a piece:
// query, key and value rows of one piece, for example).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/core/shape.hpp"

namespace shoal::shard {

// Rows [row, row + rows) x columns [col, col + cols) of a logical matrix; a logical vector of n elements is a
// matrix of n rows and 1 column.
struct Box {
  std::int64_t row = 0, rows = 0, col = 0, cols = 0;
  bool operator==(const Box&) const = default;
};

// A named tensor of the logical model (what checkpoints and state dicts hold), and the part of the stored
// tensor that it fills. A fused parameter has several.
struct LogicalTensor {
  std::string name;
  Shape shape;  // logical: unpadded, row-major; rank 1 or 2
};

struct Placement {
  std::vector<LogicalTensor> logical;  // usually one; [q, k, v] for a fused projection
  // pieces[p] lists the boxes stored one after another (each dense, row-major) in local piece p; `tensor`
  // says of which logical tensor. Stored elements that no box covers are padding, always zero.
  struct PieceBox {
    int tensor = 0;
    Box box;
    std::int64_t offset = 0;  // elements from the start of the piece
  };
  std::vector<std::vector<PieceBox>> pieces;
  std::int64_t piece_numel = 0;  // stored elements of one piece
  // The axes over which a gradient is a partial sum, innermost first: "token_shard", "use", "data".
  std::vector<std::string> partial_axes;

  static Placement whole(std::string name, const Shape& shape);  // one piece, one box
  // Splits dimension 0 (rows) or 1 (columns) of one tensor into `pieces`; dimension 0 may be padded at its end.
  // All throw ConfigError, naming tensor, shape and pieces, where these do not divide.
  static Placement rows(std::string name, const Shape& shape, std::int64_t pieces,
                        std::int64_t padded_rows = -1);
  static Placement columns(std::string name, const Shape& shape, std::int64_t pieces);
  // Several tensors with equal column counts, each split by rows into `pieces`, fused inside a piece in order.
  static Placement fused_rows(std::vector<LogicalTensor> tensors, std::int64_t pieces);
};

// Copies elements of so many bytes between the stored pieces and one logical tensor (row-major, unpadded). Host memory.
// Only what the tensor's boxes cover is touched: padding and other tensors of a fused piece stay as they are. Pieces
// begin piece_stride elements apart (Tensor::leading_stride), or lie one after another where it is not given. Throws
// ConfigError when the placement has no such tensor, or pieces would overlap.
void gather_logical_bytes(const Placement& placement, int tensor, std::int64_t element_bytes,
                          const void* stored, void* logical, std::int64_t piece_stride = -1);
void scatter_logical_bytes(const Placement& placement, int tensor, std::int64_t element_bytes,
                           const void* logical, void* stored, std::int64_t piece_stride = -1);

template <class T>
void gather_logical(const Placement& placement, int tensor, const T* stored, T* logical,
                    std::int64_t piece_stride = -1) {
  gather_logical_bytes(placement, tensor, sizeof(T), stored, logical, piece_stride);
}
template <class T>
void scatter_logical(const Placement& placement, int tensor, const T* logical, T* stored,
                     std::int64_t piece_stride = -1) {
  scatter_logical_bytes(placement, tensor, sizeof(T), logical, stored, piece_stride);
}

}  // namespace shoal::shard
