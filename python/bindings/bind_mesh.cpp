// DeviceMesh, whose axes Python calls by their names.
#include <fmt/format.h>
#include <pybind11/stl.h>

#include <map>

#include "bindings/bindings.hpp"
#include "shoal/comm/device_mesh.hpp"

namespace shoal::python {
namespace {

namespace py = pybind11;
using py::gil_scoped_release;

py::dict as_dict(const MeshIndex& index) {
  py::dict d;
  for (const Axis a : mesh_axes) d[py::str(std::string(name(a)))] = index[a];
  return d;
}

AxisSet axis_set(const std::vector<std::string>& names) {
  AxisSet set({});
  for (const std::string& n : names) set.add(parse_axis(n));
  return set;
}

}  // namespace

void bind_mesh(py::module_& m) {
  py::class_<DeviceMesh>(m, "DeviceMesh")
      .def(py::init([](const std::shared_ptr<Communicator>& world, int pp, int dp, int cp, int ep, int tp) {
             gil_scoped_release release;
             return std::make_unique<DeviceMesh>(world, MeshSizes(pp, dp, cp, ep, tp));
           }),
           py::arg("world"), py::arg("pp"), py::arg("dp"), py::arg("cp"), py::arg("ep"), py::arg("tp"))
      .def_property_readonly("world", &DeviceMesh::world)
      .def_property_readonly("sizes", [](const DeviceMesh& mesh) { return as_dict(mesh.sizes()); })
      .def_property_readonly("coordinates",
                             [](const DeviceMesh& mesh) { return as_dict(mesh.coordinates()); })
      .def("size", [](const DeviceMesh& mesh,
                      const std::vector<std::string>& axes) { return mesh.size(axis_set(axes)); })
      .def("coordinate",
           [](const DeviceMesh& mesh, const std::string& axis) { return mesh.coordinate(parse_axis(axis)); })
      .def("coordinates_of",
           [](const DeviceMesh& mesh, int rank) { return as_dict(mesh.coordinates_of(rank)); })
      .def("rank_of",
           [](const DeviceMesh& mesh, const std::map<std::string, int>& coordinates) {
             MeshIndex at = mesh.coordinates();
             for (const auto& [axis, value] : coordinates) at[parse_axis(axis)] = value;
             return mesh.rank_of(at);
           })
      .def("axis",
           [](const DeviceMesh& mesh, const std::string& axis) { return mesh.axis(parse_axis(axis)); })
      .def(
          "flatten",
          [](DeviceMesh& mesh, const std::vector<std::string>& axes) { return mesh.flatten(axis_set(axes)); },
          py::call_guard<gil_scoped_release>())
      .def("__repr__", [](const DeviceMesh& mesh) {
        return fmt::format("<shoal.comm.DeviceMesh {}: rank {} of {}>", mesh.sizes().text(),
                           mesh.world()->rank(), mesh.world()->size());
      });
}

}  // namespace shoal::python
