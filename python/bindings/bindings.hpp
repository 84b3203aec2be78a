// One function a layer; module.cpp calls them in order.
#pragma once
#include <pybind11/pybind11.h>

namespace shoal::python {

void bind_core(pybind11::module_& m);
void bind_comm(pybind11::module_& m);
void bind_mesh(pybind11::module_& m);
void bind_data(pybind11::module_& m);
void bind_models(pybind11::module_& m);
void bind_optim(pybind11::module_& m);
void bind_optimizers(pybind11::module_& m);
void bind_train(pybind11::module_& m);

}  // namespace shoal::python
