// Communicators over arrays. Module-level conveniences (init, rank, all_reduce, ...) are in shoal/comm.py.
#include <fmt/format.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include "bindings/array.hpp"
#include "bindings/bindings.hpp"
#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"

namespace shoal::python {
namespace {

ReduceOp reduce_op(const std::string& op) {
  for (ReduceOp candidate :
       {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product})
    if (name(candidate) == op) return candidate;
  if (op == "avg" || op == "mean") return ReduceOp::average;
  if (op == "prod") return ReduceOp::product;
  throw ConfigError(
      fmt::format("op = \"{}\": expected sum, average (or avg, mean), min, max or product (or prod)", op));
}

CommOptions comm_options(std::optional<double> timeout) {
  CommOptions options;
  if (timeout) options.timeout = std::chrono::duration<double>(*timeout);
  return options;
}

using Comm = std::shared_ptr<Communicator>;
using py::gil_scoped_release;

// Asynchronous operations start at once: the host's arrays are ready when Python hands them over.
const Stream& now() {
  static const Stream stream = Stream::create(Device{});
  return stream;
}

void bind_blocking(py::class_<Communicator, Comm>& cls) {
  cls.def(
      "all_reduce",
      [](Communicator& c, const py::object& t, const std::string& op) {
        const Tensor tensor = import_array(t, "all_reduce", true);
        const ReduceOp how = reduce_op(op);
        gil_scoped_release release;
        c.all_reduce(tensor, how);
      },
      py::arg("t"), py::arg("op") = "sum");
  cls.def(
      "reduce_scatter",
      [](Communicator& c, const py::object& in, const py::object& out, const std::string& op) {
        const Tensor input = import_array(in, "reduce_scatter input", false);
        const Tensor output = import_array(out, "reduce_scatter output", true);
        const ReduceOp how = reduce_op(op);
        gil_scoped_release release;
        c.reduce_scatter(input, output, how);
      },
      py::arg("input"), py::arg("output"), py::arg("op") = "sum");
  cls.def(
      "all_gather",
      [](Communicator& c, const py::object& in, const py::object& out) {
        const Tensor input = import_array(in, "all_gather input", false);
        const Tensor output = import_array(out, "all_gather output", true);
        gil_scoped_release release;
        c.all_gather(input, output);
      },
      py::arg("input"), py::arg("output"));
  cls.def(
      "broadcast",
      [](Communicator& c, const py::object& t, int root) {
        const Tensor tensor = import_array(t, "broadcast", c.rank() != root);
        gil_scoped_release release;
        c.broadcast(tensor, root);
      },
      py::arg("t"), py::arg("root") = 0);
  cls.def(
      "reduce",
      [](Communicator& c, const py::object& in, const py::object& out, int root, const std::string& op) {
        const Tensor input = import_array(in, "reduce input", false);
        const Tensor output = import_array(out, "reduce output", c.rank() == root);
        const ReduceOp how = reduce_op(op);
        gil_scoped_release release;
        c.reduce(input, output, root, how);
      },
      py::arg("input"), py::arg("output"), py::arg("root") = 0, py::arg("op") = "sum");
  cls.def(
      "all_to_all",
      [](Communicator& c, const py::object& in, const py::object& out) {
        const Tensor input = import_array(in, "all_to_all input", false);
        const Tensor output = import_array(out, "all_to_all output", true);
        gil_scoped_release release;
        c.all_to_all(input, output);
      },
      py::arg("input"), py::arg("output"));
  cls.def(
      "send",
      [](Communicator& c, const py::object& t, int peer) {
        const Tensor tensor = import_array(t, "send", false);
        gil_scoped_release release;
        c.send(tensor, peer);
      },
      py::arg("t"), py::arg("peer"));
  cls.def(
      "recv",
      [](Communicator& c, const py::object& t, int peer) {
        const Tensor tensor = import_array(t, "recv", true);
        gil_scoped_release release;
        c.recv(tensor, peer);
      },
      py::arg("t"), py::arg("peer"));
  cls.def("barrier", &Communicator::barrier, py::call_guard<gil_scoped_release>());
}

void bind_async(py::class_<Communicator, Comm>& cls) {
  cls.def(
      "all_reduce_async",
      [](Communicator& c, const py::object& t, const std::string& op) {
        const Tensor tensor = import_array(t, "all_reduce", true);
        const ReduceOp how = reduce_op(op);
        gil_scoped_release release;
        return c.all_reduce_async(tensor, tensor, how, now());
      },
      py::arg("t"), py::arg("op") = "sum");
  cls.def(
      "reduce_scatter_async",
      [](Communicator& c, const py::object& in, const py::object& out, const std::string& op) {
        const Tensor input = import_array(in, "reduce_scatter input", false);
        const Tensor output = import_array(out, "reduce_scatter output", true);
        const ReduceOp how = reduce_op(op);
        gil_scoped_release release;
        return c.reduce_scatter_async(input, output, how, now());
      },
      py::arg("input"), py::arg("output"), py::arg("op") = "sum");
  cls.def(
      "all_gather_async",
      [](Communicator& c, const py::object& in, const py::object& out) {
        const Tensor input = import_array(in, "all_gather input", false);
        const Tensor output = import_array(out, "all_gather output", true);
        gil_scoped_release release;
        return c.all_gather_async(input, output, now());
      },
      py::arg("input"), py::arg("output"));
  cls.def(
      "broadcast_async",
      [](Communicator& c, const py::object& t, int root) {
        const Tensor tensor = import_array(t, "broadcast", c.rank() != root);
        gil_scoped_release release;
        return c.broadcast_async(tensor, root, now());
      },
      py::arg("t"), py::arg("root") = 0);
}

}  // namespace

void bind_comm(py::module_& m) {
  py::class_<Work>(m, "Work")
      .def("wait", &Work::synchronize, py::call_guard<gil_scoped_release>())
      .def("is_completed", &Work::is_completed);

  py::class_<Communicator, Comm> cls(m, "Communicator");
  cls.def_property_readonly("rank", &Communicator::rank)
      .def_property_readonly("size", &Communicator::size)
      .def_property_readonly("name", &Communicator::name)
      .def_property_readonly("backend", &Communicator::backend)
      .def("split", &Communicator::split, py::arg("color"), py::arg("key") = 0,
           py::call_guard<gil_scoped_release>())
      .def("abort", &Communicator::abort, py::arg("reason"), py::call_guard<gil_scoped_release>())
      .def("__repr__", [](const Communicator& c) {
        return fmt::format("<shoal.comm.Communicator {}: rank {} of {}, {}>", c.name(), c.rank(), c.size(),
                           c.backend());
      });
  bind_blocking(cls);
  bind_async(cls);

  m.def(
      "make_world",
      [](const std::string& backend, std::optional<double> timeout) {
        return make_world({backend, comm_options(timeout)});
      },
      py::arg("backend") = "auto", py::arg("timeout") = py::none(), py::call_guard<gil_scoped_release>());
  m.def(
      "make_self", [](std::optional<double> timeout) { return make_self(comm_options(timeout)); },
      py::arg("timeout") = py::none());
  m.def(
      "run_local",
      [](int ranks, const std::function<void(Comm)>& body, std::optional<double> timeout) {
        gil_scoped_release release;  // each rank's thread takes the lock when it calls body
        run_local(ranks, body, comm_options(timeout));
      },
      py::arg("ranks"), py::arg("body"), py::arg("timeout") = py::none());
  m.def("end_failed_job", &end_failed_job, py::arg("message"), py::call_guard<gil_scoped_release>());
  m.def("local_rank", [] { return launch_info().local_rank; });
  m.def("comm_backends", [] {
    py::dict backends;
    for (const BackendInfo& b : comm_backends())
      backends[b.name.c_str()] = py::make_tuple(b.available, b.detail);
    return backends;
  });
}

}  // namespace shoal::python
