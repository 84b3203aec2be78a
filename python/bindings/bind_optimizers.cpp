// Optimizers over the caller's tensors, and the gradient scaler.
#include <fmt/format.h>
#include <pybind11/stl.h>

#include "bindings/array.hpp"
#include "bindings/bindings.hpp"
#include "shoal/core/error.hpp"
#include "shoal/optim/grad_scaler.hpp"
#include "shoal/optim/standalone.hpp"

namespace shoal::python {
namespace {

// Reads one option into the field that has its name; false where there is none.
bool set_option(optim::OptimizerConfig& c, const std::string& name, const py::handle& value) {
  const auto number = [&](double& to) { return to = value.cast<double>(), true; };
  if (name == "eps") return number(c.eps);
  if (name == "momentum") return number(c.momentum);
  if (name == "weight_decay") return number(c.weight_decay);
  if (name == "decay_rate") return number(c.decay_rate);
  if (name == "clip_threshold") return number(c.clip_threshold);
  if (name == "nesterov") return c.nesterov = value.cast<bool>(), true;
  if (name == "scale_parameter") return c.scale_parameter = value.cast<bool>(), true;
  if (name == "newton_schulz_steps") return c.newton_schulz_steps = value.cast<std::int64_t>(), true;
  if (name == "muon_scale") return c.muon_scale = value.cast<std::string>(), true;
  if (name == "master_weights") return c.master_weights = value.cast<std::string>(), true;
  if (name == "betas") {
    std::tie(c.beta1, c.beta2) = value.cast<std::pair<double, double>>();
    return true;
  }
  return false;
}

optim::ParameterGroup group_of(const py::dict& rule) {
  optim::ParameterGroup g;
  for (const auto& [k, value] : rule) {
    const auto key = k.cast<std::string>();
    if (key == "name") {
      g.name = value.cast<std::string>();
    } else if (key == "pattern") {
      g.pattern = value.cast<std::string>();
    } else if (key == "dims") {
      g.dims = value.cast<int>();
    } else if (key == "lr_scale") {
      g.lr_scale = value.cast<double>();
    } else if (key == "weight_decay") {
      g.weight_decay = value.cast<double>();
    } else if (key == "betas") {
      const auto [beta1, beta2] = value.cast<std::pair<double, double>>();
      g.beta1 = beta1;
      g.beta2 = beta2;
    } else if (key == "eps") {
      g.eps = value.cast<double>();
    } else if (key == "momentum") {
      g.momentum = value.cast<double>();
    } else if (key == "muon") {
      g.muon = value.cast<bool>();
    } else {
      throw ConfigError(fmt::format(
          "a group's rule with \"{}\": it has name, pattern, dims, lr_scale, weight_decay, betas, eps, "
          "momentum, muon",
          key));
    }
  }
  return g;
}

std::vector<optim::NamedTensor> tensors_of(const py::list& items, bool written) {
  std::vector<optim::NamedTensor> list;
  for (const py::handle& item : items) {
    const auto pair = item.cast<py::tuple>();
    const auto name = pair[0].cast<std::string>();
    list.push_back({name, import_array(py::reinterpret_borrow<py::object>(pair[1]), name.c_str(), written)});
  }
  return list;
}

// (value, kind, array) of each; the arrays are copies.
py::list state_of(const optim::TensorOptimizer& optimizer) {
  py::list list;
  for (const auto& s : optimizer.state())
    list.append(py::make_tuple(s.value, s.kind, export_array(s.tensor).attr("copy")()));
  return list;
}

}  // namespace

void bind_optimizers(py::module_& m) {
  py::class_<optim::TensorOptimizer>(m, "TensorOptimizer")
      .def(py::init([](const std::string& type, const py::list& values, std::shared_ptr<Communicator> comm,
                       const py::dict& options, const py::list& groups) {
        optim::OptimizerConfig c;
        c.type = type;
        for (const auto& [k, value] : options)
          if (!set_option(c, k.cast<std::string>(), value))
            throw ConfigError(fmt::format("{} has no option {}", type, k.cast<std::string>()));
        for (const py::handle& rule : groups) c.groups.push_back(group_of(rule.cast<py::dict>()));
        std::vector<optim::NamedTensor> tensors = tensors_of(values, true);
        py::gil_scoped_release release;
        return std::make_unique<optim::TensorOptimizer>(std::move(tensors), c, std::move(comm));
      }))
      .def("step",
           [](optim::TensorOptimizer& o, const py::list& gradients, double lr, double loss_scale,
              double max_norm, bool average, std::uint64_t seed) {
             const std::vector<optim::NamedTensor> tensors = tensors_of(gradients, false);
             py::gil_scoped_release release;
             const optim::TensorStepResult r = o.step(tensors, {lr, loss_scale, max_norm, average, seed});
             return std::pair(r.grad_norm, r.skipped);
           })
      .def_property_readonly("applied", &optim::TensorOptimizer::applied)
      .def("state", state_of)
      .def("load_state", [](optim::TensorOptimizer& o, std::int64_t applied, const py::list& state) {
        std::vector<optim::TensorOptimizer::StateTensor> list;
        for (const py::handle& item : state) {
          const auto t = item.cast<py::tuple>();
          const auto value = t[0].cast<std::string>(), kind = t[1].cast<std::string>();
          const std::string what = fmt::format("the state's {} of {}", kind, value);
          list.push_back(
              {value, kind, import_array(py::reinterpret_borrow<py::object>(t[2]), what.c_str(), false)});
        }
        o.load_state(applied, list);
      });

  py::class_<optim::GradScaler>(m, "GradScaler")
      .def(py::init([](const std::string& mode, double initial, double growth, double backoff,
                       std::int64_t window, std::int64_t hysteresis, double minimum, std::int64_t give_up) {
        return std::make_unique<optim::GradScaler>(
            optim::ScalerConfig{mode, initial, growth, backoff, window, hysteresis, minimum, give_up});
      }))
      .def_property_readonly("value", &optim::GradScaler::scale)
      .def("update", &optim::GradScaler::update)
      .def_property_readonly("exhausted", &optim::GradScaler::exhausted)
      .def("state",
           [](const optim::GradScaler& s) {
             const auto state = s.state();
             return py::make_tuple(state.scale, state.clean, state.patience, state.hopeless);
           })
      .def("set_state", [](optim::GradScaler& s, double scale, std::int64_t clean, std::int64_t patience,
                           std::int64_t hopeless) {
        s.set_state({scale, clean, patience, hopeless});
      });
}

}  // namespace shoal::python
