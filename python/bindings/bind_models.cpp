// GPT and Llama as objects: loss, gradients, logits, generation.
#include <fmt/format.h>
#include <pybind11/stl.h>

#include "bindings/array.hpp"
#include "bindings/bindings.hpp"
#include "bindings/logical.hpp"
#include "bindings/model.hpp"
#include "shoal/checkpoint/weights.hpp"
#include "shoal/core/error.hpp"
#include "shoal/ops/cross_entropy.hpp"

namespace shoal::python {

Model::Model(const models::ModelConfig& config, std::uint64_t seed)
    : model(models::make_model(config)), stream(Stream::create(Device{})) {
  models::bind_parameters(*model, stream);
  models::initialize(*model, seed, stream);
  stream.synchronize();
}

nn::Microbatch Model::microbatch(const Tensor& tokens, const Tensor* targets, bool training) const {
  const auto check = [&](const char* what, const Tensor& t) {
    if (t.dtype() != DType::i32 || t.shape().rank() != 2 || t.dim(1) != model->config().seq || t.dim(0) < 1)
      throw ShapeError(
          fmt::format("{}: {} where i32[samples, {}] is expected", what, t.str(), model->config().seq));
  };
  check("tokens", tokens);
  if (targets) {
    check("targets", *targets);
    if (!(tokens.shape() == targets->shape()))
      throw ShapeError(fmt::format("tokens {} and targets {} differ in shape", tokens.str(), targets->str()));
  }
  nn::Microbatch mb;
  mb.samples = tokens.dim(0);
  mb.seq = tokens.dim(1);
  mb.training = training;
  mb.stream = stream;
  return mb;
}

std::int64_t Model::valid(const Tensor& targets) const {
  const auto* ids = targets.as<std::int32_t>();
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < targets.numel(); ++i) count += ids[i] != ops::ignored_token;
  return count;
}

namespace {

double sum_of(const Model& m, const Tensor& loss) {
  const Tensor sum = Tensor::empty({1}, DType::f64, m.stream);
  ops::loss_sum(m.stream, loss, sum);
  m.stream.synchronize();
  return *sum.as<double>();
}

double mean(double sum, std::int64_t count) { return count == 0 ? 0.0 : sum / static_cast<double>(count); }

double loss_of(Model& m, const py::object& tokens, const py::object& targets) {
  const Tensor x = import_array(tokens, "tokens", false), y = import_array(targets, "targets", false);
  py::gil_scoped_release release;
  const nn::Microbatch mb = m.microbatch(x, &y, false);
  return mean(sum_of(m, m.model->evaluate(x.flat(), y.flat(), mb)), m.valid(y));
}

double loss_and_gradients(Model& m, const py::object& tokens, const py::object& targets) {
  const Tensor x = import_array(tokens, "tokens", false), y = import_array(targets, "targets", false);
  py::gil_scoped_release release;
  nn::Microbatch mb = m.microbatch(x, &y, true);
  const std::int64_t count = m.valid(y);
  if (count > 0) mb.loss_scale_over_count = static_cast<float>(1.0 / static_cast<double>(count));
  return mean(forward_backward(m, x, y, mb), count);
}

py::array logits_of(Model& m, const py::object& tokens) {
  const Tensor x = import_array(tokens, "tokens", false);
  Tensor out;
  {
    py::gil_scoped_release release;
    const nn::Microbatch mb = m.microbatch(x, nullptr, false);
    out = m.model->logits(x.flat(), mb);
    m.stream.synchronize();
  }
  return export_array(out.view({x.dim(0), x.dim(1), m.model->config().vocab}));
}

models::ModelConfig config_of(const std::string& type, std::int64_t layers, std::int64_t hidden,
                              std::int64_t heads, std::int64_t kv_heads, std::int64_t ffn_hidden,
                              std::int64_t vocab, std::int64_t seq, double dropout, std::optional<bool> tie) {
  if (type != "gpt" && type != "llama")
    throw ConfigError(fmt::format("type = \"{}\": expected \"gpt\" or \"llama\"", type));
  models::ModelConfig c;
  c.type = type == "gpt" ? models::ModelType::gpt : models::ModelType::llama;
  c.layers = layers;
  c.hidden = hidden;
  c.heads = heads;
  c.kv_heads = kv_heads;
  c.ffn_hidden = ffn_hidden;
  c.vocab = vocab;
  c.seq = seq;
  c.dropout = dropout;
  c.tie_embeddings = tie.value_or(c.type == models::ModelType::gpt);
  return c.resolved();
}

}  // namespace

double forward_backward(Model& m, const Tensor& tokens, const Tensor& targets, nn::Microbatch mb) {
  nn::Saved saved;
  const Tensor loss = m.model->forward(tokens.flat(), targets.flat(), saved, mb);
  const double sum = sum_of(m, loss);
  m.model->backward(saved, mb);
  m.stream.synchronize();
  return sum;
}

void bind_models(py::module_& m) {
  py::class_<Model, std::shared_ptr<Model>>(m, "Model")
      .def(py::init([](const std::string& type, std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                       std::int64_t kv_heads, std::int64_t ffn_hidden, std::int64_t vocab, std::int64_t seq,
                       double dropout, std::optional<bool> tie, std::uint64_t seed) {
             const auto config =
                 config_of(type, layers, hidden, heads, kv_heads, ffn_hidden, vocab, seq, dropout, tie);
             py::gil_scoped_release release;
             return std::make_shared<Model>(config, seed);
           }),
           py::arg("type") = "gpt", py::kw_only(), py::arg("layers") = 4, py::arg("hidden") = 128,
           py::arg("heads") = 4, py::arg("kv_heads") = 0, py::arg("ffn_hidden") = 0, py::arg("vocab") = 256,
           py::arg("seq") = 64, py::arg("dropout") = 0.0, py::arg("tie_embeddings") = py::none(),
           py::arg("seed") = 1)
      .def_property_readonly("vocab", [](const Model& x) { return x.model->config().vocab; })
      .def_property_readonly("seq", [](const Model& x) { return x.model->config().seq; })
      .def_property_readonly("parameters",
                             [](const Model& x) { return parameter_arrays(x.model->parameters()); })
      .def_property_readonly("gradients",
                             [](const Model& x) { return gradient_arrays(x.model->parameters()); })
      .def(
          "set_parameters",
          [](const Model& x, const py::dict& arrays) { set_parameters(x.model->parameters(), arrays); },
          py::arg("arrays"))
      .def("loss", &loss_of, py::arg("tokens"), py::arg("targets"))
      .def("loss_and_gradients", &loss_and_gradients, py::arg("tokens"), py::arg("targets"))
      .def("logits", &logits_of, py::arg("tokens"))
      .def(
          "generate",
          [](Model& x, const std::vector<std::int32_t>& prompt, std::int64_t count, double temperature,
             std::int64_t top_k, std::uint64_t seed) {
            return models::generate(*x.model, prompt, {count, temperature, top_k, seed}, x.stream);
          },
          py::arg("prompt"), py::arg("count") = 200, py::arg("temperature") = 0.8, py::arg("top_k") = 0,
          py::arg("seed") = 1, py::call_guard<py::gil_scoped_release>())
      .def(
          "save",
          [](const Model& x, const std::string& path) {
            checkpoint::save_weights(path, x.model->parameters());
          },
          py::arg("path"), py::call_guard<py::gil_scoped_release>())
      .def(
          "load",
          [](const Model& x, const std::string& path) {
            checkpoint::load_weights(path, x.model->parameters());
          },
          py::arg("path"), py::call_guard<py::gil_scoped_release>());
}

}  // namespace shoal::python
