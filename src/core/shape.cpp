#include "shoal/core/shape.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "shoal/core/error.hpp"

namespace shoal {

Shape::Shape(std::initializer_list<std::int64_t> extents)
    : Shape(extents.begin(), static_cast<int>(extents.size())) {}

Shape::Shape(const std::int64_t* extents, int rank) : rank_(rank) {
  if (rank > max_rank) throw ShapeError(fmt::format("a shape of rank {}: at most {}", rank, max_rank));
  for (int i = 0; i < rank; ++i) {
    if (extents[i] < 0)
      throw ShapeError(fmt::format("a negative extent, {}, in dimension {}", extents[i], i));
    extents_[i] = extents[i];
  }
}

std::int64_t Shape::numel() const {
  std::int64_t n = 1;
  for (std::int64_t e : *this) n *= e;
  return n;
}

Shape Shape::tail() const { return Shape(begin() + 1, rank_ - 1); }

Shape Shape::with_leading(std::int64_t n) const {
  Shape s = *this;
  s.extents_[0] = n;
  return s;
}

bool Shape::operator==(const Shape& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

std::string Shape::str() const { return fmt::format("[{}]", fmt::join(begin(), end(), ", ")); }

}  // namespace shoal
