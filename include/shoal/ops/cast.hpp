// Conversions between floating-point types.
#pragma once
#include <cstdint>

#include "shoal/core/dtype.hpp"
#include "shoal/core/random.hpp"
#include "shoal/core/tensor.hpp"

namespace shoal::ops {

// What values and activations may be stored in.
constexpr bool is_training_type(DType t) { return t == DType::f32 || t == DType::bf16 || t == DType::f16; }

// to[i] = from[i], for f32, f16 and bf16: exact where `to` is wider, else to nearest, ties to even; above the largest
// to infinity; NaN stays NaN. The same type is a copy. The arrays must not overlap. Throws ShapeError for other types.
// A host function on raw memory, called from communication threads: it runs on its caller alone.
void cast(DType from_type, const void* from, DType to_type, void* to, std::int64_t count);

// The same of tensors of as many elements, without gaps, in stream order.
void convert(const Stream& stream, const Tensor& from, const Tensor& to);

// y[e] (bf16 or f16) is one of the two neighbours of x[e] (f32, as many elements) in y's type, the further one with
// the probability of its distance, so that y is x in expectation (Gupta, Agrawal, Gopalakrishnan, Narayanan, "Deep
// learning with limited numerical precision", ICML 2015). Exact values stay; NaN, and what rounding to nearest takes to
// infinity, are as that says; no other number becomes infinite. Element e takes number first + e of `key`: any cut
// gives the same bits.
void round_stochastic(const Stream& stream, const Tensor& x, const RandomKey& key, std::uint64_t first,
                      const Tensor& y);

}  // namespace shoal::ops
