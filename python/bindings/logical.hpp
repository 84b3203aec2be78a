// A model's parameters as NumPy arrays under their logical names: row-major and unpadded, always copies.
#pragma once
#include <pybind11/numpy.h>

#include <vector>

#include "shoal/nn/parameter.hpp"

namespace shoal::python {

pybind11::dict parameter_arrays(const std::vector<nn::Parameter*>& parameters);
// The sum over a parameter's parts, in order.
pybind11::dict gradient_arrays(const std::vector<nn::Parameter*>& parameters);
// Sets the named ones; throws ConfigError for an unknown name, ShapeError for another shape or dtype. Nothing is changed
// then.
void set_parameters(const std::vector<nn::Parameter*>& parameters, const pybind11::dict& arrays);

}  // namespace shoal::python
