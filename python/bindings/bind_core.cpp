// Errors and what the build contains.
#include <exception>

#include "bindings/bindings.hpp"
#include "shoal/core/build_info.hpp"
#include "shoal/core/error.hpp"
#include "shoal/train/agree.hpp"

namespace shoal::python {
namespace {

namespace py = pybind11;

// on_all_ranks: every rank raised the same, so one of them is enough to show (shoal/comm.py).
void raise(const char* type, const std::exception& e) {
  const py::object cls = py::module_::import("shoal.errors").attr(type);
  const py::object value = cls(e.what());
  if (dynamic_cast<const train::Agreed*>(&e)) value.attr("on_all_ranks") = true;
  PyErr_SetObject(cls.ptr(), value.ptr());
}

// Most derived first.
void translate(std::exception_ptr pointer) {
  if (!pointer) return;
  try {
    std::rethrow_exception(pointer);
  } catch (const ConfigError& e) {
    raise("ConfigError", e);
  } catch (const ShapeError& e) {
    raise("ShapeError", e);
  } catch (const TimeoutError& e) {
    raise("TimeoutError", e);
  } catch (const CommError& e) {
    raise("CommError", e);
  } catch (const DataError& e) {
    raise("DataError", e);
  } catch (const CheckpointError& e) {
    raise("CheckpointError", e);
  } catch (const DeviceError& e) {
    raise("DeviceError", e);
  } catch (const TrainError& e) {
    raise("TrainError", e);
  } catch (const Error& e) {
    raise("Error", e);
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
