// Between Python's arrays and Tensor, without copying.
#pragma once
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "shoal/core/tensor.hpp"

namespace shoal::python {

namespace py = pybind11;

// The memory of a NumPy array, or of anything with __dlpack__, as a Tensor that keeps the object alive. Throws
// ShapeError for memory that is not contiguous and row-major, for a dtype that Tensor does not have, and, when `written`,
// for a read-only array; DeviceError for memory that is not the host's; TypeError for anything else.
// `what` names the argument in messages.
Tensor import_array(const py::object& object, const char* what, bool written);

// A NumPy array on the tensor's own memory, which it keeps alive. bf16 has no NumPy type: a ShapeError.
py::array export_array(const Tensor& tensor);

}  // namespace shoal::python
