// The shape of a tensor: up to six 64-bit extents, held inline so that copying a tensor never allocates.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace shoal {

class Shape {
 public:
  static constexpr int max_rank = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents);  // throws ShapeError: more than six, or negative
  Shape(const std::int64_t* extents, int rank);

  int rank() const { return rank_; }
  std::int64_t operator[](int i) const { return extents_[i]; }  // 0 <= i < rank()
  std::int64_t numel() const;                                   // 1 for rank 0
  Shape tail() const;                                           // without the leading extent
  Shape with_leading(std::int64_t n) const;                     // the leading extent replaced by n
  const std::int64_t* begin() const { return extents_.data(); }
  const std::int64_t* end() const { return extents_.data() + rank_; }
  bool operator==(const Shape& other) const;
  std::string str() const;  // "[2, 3]"

 private:
  std::array<std::int64_t, max_rank> extents_{};
  int rank_ = 0;
};

}  // namespace shoal
