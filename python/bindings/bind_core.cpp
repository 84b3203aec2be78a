// Errors and what the build contains.
#include "bindings/bindings.hpp"
#include "shoal/core/build_info.hpp"
#include "shoal/core/error.hpp"

namespace shoal::python {
namespace {

namespace py = pybind11;

void raise(const char* type, const char* message) {
  const py::object cls = py::module_::import("shoal.errors").attr(type);
  PyErr_SetString(cls.ptr(), message);
}

// Most derived first.
void translate(std::exception_ptr pointer) {
  if (!pointer) return;
  try {
    std::rethrow_exception(pointer);
  } catch (const ConfigError& e) {
    raise("ConfigError", e.what());
  } catch (const ShapeError& e) {
    raise("ShapeError", e.what());
  } catch (const TimeoutError& e) {
    raise("TimeoutError", e.what());
  } catch (const CommError& e) {
    raise("CommError", e.what());
  } catch (const DataError& e) {
    raise("DataError", e.what());
  } catch (const CheckpointError& e) {
    raise("CheckpointError", e.what());
  } catch (const DeviceError& e) {
    raise("DeviceError", e.what());
  } catch (const TrainError& e) {
    raise("TrainError", e.what());
  } catch (const Error& e) {
    raise("Error", e.what());
  }
}

}  // namespace

void bind_core(py::module_& m) {
  py::register_exception_translator(&translate);
  m.def("version", &version);
  m.def("build_description", &build_description);
  m.def("build_features", [] {
    py::dict features;
    for (const Feature& f : build_features()) features[f.name.c_str()] = py::make_tuple(f.present, f.detail);
    return features;
  });
}

}  // namespace shoal::python
