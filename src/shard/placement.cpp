#include "shoal/shard/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "shoal/core/error.hpp"

namespace shoal::shard {
namespace {

std::int64_t row_count(const LogicalTensor& t) { return t.shape[0]; }
std::int64_t column_count(const LogicalTensor& t) { return t.shape.rank() == 2 ? t.shape[1] : 1; }

void check(const LogicalTensor& t, std::int64_t pieces) {
  if (t.shape.rank() != 1 && t.shape.rank() != 2)
    throw ConfigError(fmt::format("{} has shape {}: a placement needs rank 1 or 2", t.name, t.shape.str()));
  if (pieces < 1) throw ConfigError(fmt::format("{} in {} pieces: expected 1 or more", t.name, pieces));
}

void check_divides(const LogicalTensor& t, const char* what, std::int64_t n, std::int64_t pieces) {
  if (n % pieces != 0)
    throw ConfigError(
        fmt::format("{} {} of {} {} do not divide into {} pieces", n, what, t.name, t.shape.str(), pieces));
}

// Calls row(stored offset, logical offset, elements) for every dense run of the tensor's boxes.
template <class F>
void for_each_run(const Placement& placement, int tensor, std::int64_t piece_stride, F run) {
  if (tensor < 0 || tensor >= static_cast<int>(placement.logical.size()))
    throw ConfigError(
        fmt::format("logical tensor {} of a placement that has {}", tensor, placement.logical.size()));
  if (piece_stride < 0) piece_stride = placement.piece_numel;
  if (piece_stride < placement.piece_numel && placement.pieces.size() > 1)
    throw ConfigError(fmt::format("{}: pieces of {} elements that begin {} apart",
                                  placement.logical[tensor].name, placement.piece_numel, piece_stride));
  const std::int64_t width = column_count(placement.logical[tensor]);
  for (std::size_t p = 0; p < placement.pieces.size(); ++p) {
    for (const Placement::PieceBox& b : placement.pieces[p]) {
      if (b.tensor != tensor) continue;
      const std::int64_t stored = static_cast<std::int64_t>(p) * piece_stride + b.offset;
      if (b.box.cols == width) {  // rows are contiguous on both sides
        run(stored, b.box.row * width, b.box.rows * width);
        continue;
      }
      for (std::int64_t r = 0; r < b.box.rows; ++r)
        run(stored + r * b.box.cols, (b.box.row + r) * width + b.box.col, b.box.cols);
    }
  }
}

}  // namespace

Placement Placement::whole(std::string name, const Shape& shape) { return rows(std::move(name), shape, 1); }

Placement Placement::rows(std::string name, const Shape& shape, std::int64_t pieces,
                          std::int64_t padded_rows) {
  Placement placement;
  placement.logical.push_back({std::move(name), shape});
  const LogicalTensor& t = placement.logical[0];
  check(t, pieces);
  const std::int64_t total = row_count(t), width = column_count(t);
  if (padded_rows < 0) padded_rows = total;
  if (padded_rows < total)
    throw ConfigError(
        fmt::format("{} {} padded to {} rows: fewer than it has", t.name, shape.str(), padded_rows));
  check_divides(t, padded_rows == total ? "rows" : "padded rows", padded_rows, pieces);
  const std::int64_t each = padded_rows / pieces;
  placement.piece_numel = each * width;
  placement.pieces.resize(pieces);
  for (std::int64_t p = 0; p < pieces; ++p) {
    const std::int64_t first = std::min(p * each, total), last = std::min(first + each, total);
    // A piece that is padding alone has no box; an empty tensor keeps its empty one.
    if (last > first || total == 0) placement.pieces[p].push_back({0, {first, last - first, 0, width}, 0});
  }
  return placement;
}

Placement Placement::columns(std::string name, const Shape& shape, std::int64_t pieces) {
  Placement placement;
  placement.logical.push_back({std::move(name), shape});
  const LogicalTensor& t = placement.logical[0];
  check(t, pieces);
  if (shape.rank() != 2)
    throw ConfigError(fmt::format("{} has shape {}: a split by columns needs rank 2", t.name, shape.str()));
  check_divides(t, "columns", shape[1], pieces);
  const std::int64_t each = shape[1] / pieces;
  placement.piece_numel = shape[0] * each;
  placement.pieces.resize(pieces);
  for (std::int64_t p = 0; p < pieces; ++p)
    placement.pieces[p].push_back({0, {0, shape[0], p * each, each}, 0});
  return placement;
}

Placement Placement::fused_rows(std::vector<LogicalTensor> tensors, std::int64_t pieces) {
  if (tensors.empty()) throw ConfigError("a fused placement of no tensors");
  Placement placement;
  for (const LogicalTensor& t : tensors) {
    check(t, pieces);
    check_divides(t, "rows", row_count(t), pieces);
    if (column_count(t) != column_count(tensors[0]))
      throw ConfigError(fmt::format("{} {} cannot be fused with {} {}: they differ in columns", t.name,
                                    t.shape.str(), tensors[0].name, tensors[0].shape.str()));
  }
  placement.logical = std::move(tensors);
  placement.pieces.resize(pieces);
  for (std::int64_t p = 0; p < pieces; ++p) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < placement.logical.size(); ++i) {
      const LogicalTensor& t = placement.logical[i];
      const std::int64_t each = row_count(t) / pieces, width = column_count(t);
      placement.pieces[p].push_back({static_cast<int>(i), {p * each, each, 0, width}, offset});
      offset += each * width;
    }
    placement.piece_numel = offset;
  }
  return placement;
}

void gather_logical_bytes(const Placement& placement, int tensor, std::int64_t element, const void* stored,
                          void* logical, std::int64_t piece_stride) {
  const auto* from = static_cast<const std::byte*>(stored);
  auto* to = static_cast<std::byte*>(logical);
  for_each_run(placement, tensor, piece_stride, [&](std::int64_t s, std::int64_t l, std::int64_t n) {
    if (n > 0) std::memcpy(to + l * element, from + s * element, static_cast<std::size_t>(n * element));
  });
}

void scatter_logical_bytes(const Placement& placement, int tensor, std::int64_t element, const void* logical,
                           void* stored, std::int64_t piece_stride) {
  const auto* from = static_cast<const std::byte*>(logical);
  auto* to = static_cast<std::byte*>(stored);
  for_each_run(placement, tensor, piece_stride, [&](std::int64_t s, std::int64_t l, std::int64_t n) {
    if (n > 0) std::memcpy(to + s * element, from + l * element, static_cast<std::size_t>(n * element));
  });
}

}  // namespace shoal::shard
