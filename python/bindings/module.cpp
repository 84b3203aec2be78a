// The extension module shoal._core. Loading it makes no communicator, opens no socket and touches no device.
#include "bindings/bindings.hpp"

PYBIND11_MODULE(_core, m) {
  m.doc() = "The compiled part of shoal; use the modules of the package instead.";
  shoal::python::bind_core(m);
  shoal::python::bind_comm(m);
  shoal::python::bind_mesh(m);
  shoal::python::bind_data(m);
  shoal::python::bind_models(m);
  shoal::python::bind_optim(m);
  shoal::python::bind_optimizers(m);
  shoal::python::bind_train(m);
}
