// Jobs and the Trainer.
#include <fmt/format.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <optional>

#include "bindings/array.hpp"
#include "bindings/bindings.hpp"
#include "bindings/logical.hpp"
#include "shoal/train/trainer.hpp"

namespace shoal::python {
namespace {

using train::Trainer;

std::unique_ptr<Trainer> make_trainer(const train::Job& job, std::shared_ptr<Communicator> comm,
                                      std::optional<bool> write_records,
                                      std::function<void(const train::Metrics&)> on_step) {
  train::TrainerOptions options;
  options.write_records = write_records.value_or(true);
  options.late_records = !write_records.has_value();  // none: a script that only steps makes no directory
  options.on_step = std::move(on_step);               // takes the interpreter's lock when it is called
  py::gil_scoped_release release;
  return std::make_unique<Trainer>(job, std::move(comm), options);
}

}  // namespace

void bind_train(py::module_& m) {
  py::class_<train::Job>(m, "Job")
      .def("to_toml", &train::to_toml)
      .def("resolved", &train::resolve, py::arg("ranks"));
  m.def("load_job", &train::load_job, py::arg("path"), py::arg("overrides"));
  m.def(
      "predict_memory",
      [](const train::Job& job, int ranks, int rank) {
        const train::MemoryPrediction p = train::predict_memory(train::resolve(job, ranks), ranks, rank);
        py::dict bytes;
        bytes["parameters"] = p.parameters;
        bytes["gradients"] = p.gradients;
        bytes["optimizer"] = p.optimizer;
        bytes["activations"] = p.activations;
        bytes["other"] = p.other;
        bytes["total"] = p.total();
        return bytes;
      },
      py::arg("job"), py::arg("ranks"), py::arg("rank") = 0);

  py::class_<train::Metrics>(m, "Metrics")
      .def_readonly("step", &train::Metrics::step)
      .def_readonly("loss", &train::Metrics::loss)
      .def_readonly("grad_norm", &train::Metrics::grad_norm)
      .def_readonly("lr", &train::Metrics::lr)
      .def_readonly("tokens", &train::Metrics::tokens)
      .def_readonly("seconds", &train::Metrics::seconds)
      .def_readonly("tokens_per_second", &train::Metrics::tokens_per_second)
      .def_readonly("loss_scale", &train::Metrics::loss_scale)
      .def_readonly("skipped", &train::Metrics::skipped)
      .def_readonly("peak_bytes", &train::Metrics::peak_bytes)
      .def_readonly("val_loss", &train::Metrics::val_loss)
      .def_readonly("val_loss_ema", &train::Metrics::val_loss_ema)
      .def_readonly("outlier", &train::Metrics::outlier)
      .def_property_readonly("overflow",
                             [](const train::Metrics& x) -> std::optional<std::pair<std::string, int>> {
                               if (!x.overflow) return std::nullopt;
                               return std::pair(x.overflow->parameter, x.overflow->rank);
                             })
      .def("json", &train::Metrics::json)
      .def("__repr__", [](const train::Metrics& x) { return "<shoal.Metrics " + x.json() + ">"; });

  py::class_<Trainer>(m, "Trainer")
      .def(py::init(&make_trainer), py::arg("job"), py::arg("comm"), py::arg("write_records"),
           py::arg("on_step"))
      .def_property_readonly("resolved_job", &Trainer::job, py::return_value_policy::copy)
      .def("step", &Trainer::step, py::call_guard<py::gil_scoped_release>())
      .def("evaluate", &Trainer::evaluate, py::call_guard<py::gil_scoped_release>())
      .def("evaluate_average", &Trainer::evaluate_average, py::call_guard<py::gil_scoped_release>())
      .def("run", &Trainer::run, py::call_guard<py::gil_scoped_release>())
      .def("save_weights", &Trainer::save_weights, py::arg("path"), py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("parameters", [](Trainer& t) {
        t.stream().synchronize();
        return parameter_arrays(t.model().parameters());
      });
}

}  // namespace shoal::python
