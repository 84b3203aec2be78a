// What the files that bind communicators share.
#pragma once
#include <pybind11/pybind11.h>

#include <memory>
#include <string>

#include "shoal/comm/communicator.hpp"

namespace shoal::python {

namespace py = pybind11;
using Comm = std::shared_ptr<Communicator>;

// A Work, and the communicator to break when a wait for it is interrupted.
struct PyWork {
  Work work;
  Comm comm;
};

ReduceOp reduce_op(const std::string& op);
void bind_collectives(py::class_<Communicator, Comm>& cls);

}  // namespace shoal::python
