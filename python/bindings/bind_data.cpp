// Token files: packing and reading.
#include <fmt/format.h>
#include <pybind11/stl.h>

#include "bindings/array.hpp"
#include "bindings/bindings.hpp"
#include "shoal/core/error.hpp"
#include "shoal/data/pack.hpp"
#include "shoal/data/sampler.hpp"
#include "shoal/data/token_file.hpp"

namespace shoal::python {
namespace {

py::array read_tokens(const data::TokenFile& file, std::int64_t first, std::int64_t count) {
  if (first < 0 || count < 0 || first > file.tokens() || count > file.tokens() - first)
    throw DataError(fmt::format("{}: tokens [{}, {} + {}) are not all among its {}", file.path(), first,
                                first, count, file.tokens()));
  py::array_t<std::int32_t> out(count);
  std::int32_t* to = out.mutable_data();
  py::gil_scoped_release release;
  file.read(first, count, to);
  return out;
}

}  // namespace

void bind_data(py::module_& m) {
  m.def(
      "pack",
      [](const std::string& output, const std::vector<std::string>& inputs,
         const std::vector<std::string>& suffixes, std::int64_t vocab) {
        data::PackOptions options;
        options.suffixes = suffixes;
        options.vocab = vocab;
        data::PackReport report;
        {
          py::gil_scoped_release release;
          report = data::pack(output, inputs, options);
        }
        py::dict result;
        result["files"] = report.files;
        result["skipped_links"] = report.skipped_links;
        result["tokens"] = report.tokens;
        result["dtype"] = std::string(name(report.dtype));
        result["checksum"] = report.checksum;
        return result;
      },
      py::arg("output"), py::arg("inputs"), py::arg("suffixes"), py::arg("vocab"));

  py::class_<data::TokenFile>(m, "TokenFile")
      .def_property_readonly("path", &data::TokenFile::path)
      .def_property_readonly("packed", &data::TokenFile::is_packed)
      .def_property_readonly("dtype", [](const data::TokenFile& f) { return std::string(name(f.dtype())); })
      .def_property_readonly("vocab", &data::TokenFile::vocab)
      .def_property_readonly("checksum", &data::TokenFile::checksum)
      .def("verify", &data::TokenFile::verify, py::call_guard<py::gil_scoped_release>())
      .def("read", &read_tokens, py::arg("first"), py::arg("count"))
      .def("__repr__",
           [](const data::TokenFile& f) {
             return fmt::format("<shoal.data.TokenFile {}: {} tokens, {}, vocabulary of {}>", f.path(),
                                f.tokens(), name(f.dtype()), f.vocab());
           })
      .def("__len__", &data::TokenFile::tokens)
      .def("__getitem__", [](const data::TokenFile& f, const py::slice& slice) {
        py::ssize_t start, stop, step, count;
        if (!slice.compute(f.tokens(), &start, &stop, &step, &count)) throw py::error_already_set();
        if (step != 1)
          throw py::value_error(fmt::format("a step of {}: tokens are read in runs, with step 1", step));
        return read_tokens(f, start, count);
      });
  m.def("open_tokens", &data::open_tokens, py::arg("path"), py::call_guard<py::gil_scoped_release>());

  py::class_<data::Sampler>(m, "Sampler")
      .def(py::init<std::int64_t, std::int64_t, std::uint64_t>(), py::arg("samples"), py::arg("global_batch"),
           py::arg("seed") = 1)
      .def("epoch", &data::Sampler::epoch, py::arg("batch"))
      .def("samples",
           py::overload_cast<std::int64_t, std::int64_t, std::int64_t>(&data::Sampler::samples, py::const_),
           py::arg("batch"), py::arg("first"), py::arg("count"));
}

}  // namespace shoal::python
