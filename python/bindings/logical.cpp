#include "bindings/logical.hpp"

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "bindings/array.hpp"
#include "shoal/core/error.hpp"
#include "shoal/ops/cast.hpp"

namespace shoal::python {
namespace {

py::array_t<float> gather(const nn::Parameter& p, int tensor, const Tensor& stored) {
  const Shape& shape = p.placement.logical[static_cast<std::size_t>(tensor)].shape;
  py::array_t<float> out(std::vector<py::ssize_t>(shape.begin(), shape.end()));
  const std::int64_t element = size_of(stored.dtype());
  std::vector<std::uint8_t> own(static_cast<std::size_t>(shape.numel() * element));
  shard::gather_logical_bytes(p.placement, tensor, element, stored.data(), own.data(),
                              stored.leading_stride());
  ops::cast(stored.dtype(), own.data(), DType::f32, out.mutable_data(), shape.numel());  // exact
  return out;
}

template <class Body>
void each_logical(const std::vector<nn::Parameter*>& parameters, const Body& body) {
  for (nn::Parameter* p : parameters)
    for (std::size_t t = 0; t < p->placement.logical.size(); ++t)
      body(*p, static_cast<int>(t), p->placement.logical[t].name);
}

}  // namespace

py::dict parameter_arrays(const std::vector<nn::Parameter*>& parameters) {
  py::dict result;
  each_logical(parameters, [&](const nn::Parameter& p, int tensor, const std::string& name) {
    result[name.c_str()] = gather(p, tensor, p.value);
  });
  return result;
}

py::dict gradient_arrays(const std::vector<nn::Parameter*>& parameters) {
  py::dict result;
  each_logical(parameters, [&](const nn::Parameter& p, int tensor, const std::string& name) {
    py::array_t<float> sum = gather(p, tensor, p.grad.at(0));
    float* to = sum.mutable_data();
    for (std::size_t part = 1; part < p.grad.size(); ++part) {
      const py::array_t<float> more = gather(p, tensor, p.grad[part]);
      for (py::ssize_t i = 0; i < sum.size(); ++i) to[i] += more.data()[i];
    }
    result[name.c_str()] = sum;
  });
  return result;
}

void set_parameters(const std::vector<nn::Parameter*>& parameters, const py::dict& arrays) {
  std::map<std::string, std::pair<nn::Parameter*, int>> places;
  each_logical(parameters, [&](nn::Parameter& p, int tensor, const std::string& name) {
    places[name] = {&p, tensor};
  });
  std::map<std::string, Tensor> given;
  for (const auto& [key, value] : arrays) {
    const auto name = key.cast<std::string>();
    const auto place = places.find(name);
    if (place == places.end()) throw ConfigError(fmt::format("the model has no parameter {}", name));
    const Tensor tensor = import_array(py::reinterpret_borrow<py::object>(value), name.c_str(), false);
    const auto& [p, index] = place->second;
    const Shape& shape = p->placement.logical[static_cast<std::size_t>(index)].shape;
    if (!(tensor.shape() == shape) || tensor.dtype() != DType::f32)
      throw ShapeError(fmt::format("{}: {} where f32{} is expected", name, tensor.str(), shape.str()));
    given[name] = tensor;
  }
  for (const auto& [name, tensor] : given) {
    const auto& [p, index] = places[name];
    const std::int64_t element = size_of(p->value.dtype());
    std::vector<std::uint8_t> own(static_cast<std::size_t>(tensor.numel() * element));
    ops::cast(DType::f32, tensor.as<float>(), p->value.dtype(), own.data(), tensor.numel());  // rounded once
    shard::scatter_logical_bytes(p->placement, index, element, own.data(), p->value.data(),
                                 p->value.leading_stride());
  }
}

}  // namespace shoal::python
