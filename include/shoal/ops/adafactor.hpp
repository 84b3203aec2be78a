// Adafactor's work on one whole tensor (Shazeer, Stern 2018, algorithms 2 and 4).
#pragma once
#include "shoal/core/tensor.hpp"

namespace shoal::ops {

struct AdafactorStep {
  float grad_scale;
  double decay, rest;  // of the averages; they add up to 1
  double eps;          // added to every square
};

// g f32 [R, C] becomes G / sqrt(V) with G = g * grad_scale and V = rows columns^T / sum(rows), where
// rows f32 [R] = decay rows + rest (sums of G^2 + eps over a row), and columns f32 [C] alike.
// Sums are FP64: a row's in 16 lanes, a column's upward. rows and columns are rounded once, so is each of the two
// factors 1 / sqrt of an element.
void adafactor_matrix(const Stream& stream, const Tensor& g, const Tensor& rows, const Tensor& columns,
                      const AdafactorStep& step);
// g f32 [n] becomes G / sqrt(v), v f32 [n] = decay v + rest (G^2 + eps).
void adafactor_vector(const Stream& stream, const Tensor& g, const Tensor& v, const AdafactorStep& step);

}  // namespace shoal::ops
