// Values whose reduction is known exactly, whatever the order of the sums: small whole numbers, which every type
// holds. They are periodic with a prime period, so that a power of two too few or too far off is seen.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/comm/reduce_op.hpp"
#include "shoal/core/tensor.hpp"

namespace shoal::cli::bench {

inline constexpr std::int64_t period = 509;

// By what a rank multiplies its input in a pre-scaled sum.
constexpr double scale_of(int rank) { return 1 + rank % 2; }

// What a run of elements holds, by the rank it comes from and the part of that rank's buffer that it is: element j
// is values[j % period], stored as dtype.
class Pattern {
 public:
  // `round` changes all values, so that what an earlier check left behind is wrong.
  static Pattern input(DType dtype, Reduction op, int ranks, int from, int part, int round);
  // The reduction of input(..., from, part, round) over all ranks `from`.
  static Pattern reduced(DType dtype, Reduction op, int ranks, int part, int round);

  void fill(const Tensor& t) const;
  std::int64_t count_wrong(const Tensor& t) const;

 private:
  Pattern(DType dtype, const std::vector<double>& values);
  DType dtype_;
  std::vector<std::byte> bytes_;  // many periods, as stored
};

}  // namespace shoal::cli::bench
