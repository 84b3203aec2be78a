#include "bindings/array.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <vector>

#include "bindings/dlpack.hpp"
#include "shoal/core/error.hpp"

namespace shoal::python {
namespace {

std::optional<DType> dtype_from(char kind, std::int64_t bytes) {
  switch (kind) {
    case 'f':
      return bytes == 4   ? std::optional(DType::f32)
             : bytes == 8 ? std::optional(DType::f64)
             : bytes == 2 ? std::optional(DType::f16)
                          : std::nullopt;
    case 'i':
      return bytes == 4 ? std::optional(DType::i32) : bytes == 8 ? std::optional(DType::i64) : std::nullopt;
    case 'u':
      return bytes == 1   ? std::optional(DType::u8)
             : bytes == 2 ? std::optional(DType::u16)
             : bytes == 4 ? std::optional(DType::u32)
                          : std::nullopt;
    case 'V': return bytes == 2 ? std::optional(DType::bf16) : std::nullopt;
    default: return std::nullopt;
  }
}

// Strides of one-element and of empty extents mean nothing.
void require_row_major(const char* what, const std::vector<std::int64_t>& shape,
                       const std::vector<std::int64_t>& strides) {
  std::int64_t expected = 1;
  bool dense = true, empty = false;
  for (std::size_t i = shape.size(); i-- > 0;) {
    empty = empty || shape[i] == 0;
    dense = dense && (shape[i] == 1 || strides[i] == expected);
    expected *= shape[i];
  }
  if (!dense && !empty)
    throw ShapeError(
        fmt::format("{}: an array of shape [{}] with strides [{}] elements is not contiguous and row-major; "
                    "numpy.ascontiguousarray, or .contiguous() of a torch tensor, makes a copy that is",
                    what, fmt::join(shape, ", "), fmt::join(strides, ", ")));
}

Shape shape_of(const std::vector<std::int64_t>& extents) {
  return Shape(extents.data(), static_cast<int>(extents.size()));
}

// What a tensor's memory belongs to is given back with the interpreter's lock held, from whichever thread it is; once the
// interpreter is ending nobody may take that lock, and the memory is left to the end of the process.
std::shared_ptr<void> owner_of(py::object object) {
  return std::shared_ptr<void>(object.release().ptr(), [](void* p) {
    if (!Py_IsInitialized() || _Py_IsFinalizing()) return;
    py::gil_scoped_acquire lock;
    Py_DECREF(static_cast<PyObject*>(p));
  });
}

Tensor import_numpy(const py::array& array, const char* what, bool written) {
  const py::dtype type = array.dtype();
  const auto dtype = dtype_from(type.kind(), type.itemsize());
  const std::string type_text = py::str(py::object(type)).cast<std::string>();
  const bool native = py::bool_(type.attr("isnative"));
  if (!dtype || !native || type.kind() == 'V')
    throw ShapeError(
        fmt::format("{}: dtype {} is none of float32, float64, float16, int32, int64, uint8, uint16, "
                    "uint32 in native byte order",
                    what, type_text));
  if (written && !array.writeable())
    throw ShapeError(fmt::format("{}: the array is read-only and would be written to", what));
  std::vector<std::int64_t> shape, strides;
  for (py::ssize_t i = 0; i < array.ndim(); ++i) {
    shape.push_back(array.shape(i));
    if (array.strides(i) % type.itemsize() != 0 && array.size() != 0)
      throw ShapeError(fmt::format("{}: a stride of {} bytes is no multiple of an element's {}", what,
                                   array.strides(i), type.itemsize()));
    strides.push_back(array.strides(i) / type.itemsize());
  }
  require_row_major(what, shape, strides);
  return Tensor::from_blob(const_cast<void*>(array.data()), shape_of(shape), *dtype, Device{},
                           owner_of(array));
}

Tensor import_dlpack(const py::object& object, const char* what) {
  if (py::hasattr(object, "requires_grad") && py::bool_(object.attr("requires_grad")))
    throw ShapeError(fmt::format(
        "{}: the tensor requires grad, and nothing here is recorded for autograd; detach() it first "
        "(t.detach() has the same memory)",
        what));
  const auto device = object.attr("__dlpack_device__")().cast<std::pair<int, int>>();
  if (device.first != dlpack::cpu)
    throw DeviceError(
        fmt::format("{}: DLPack device ({}, {}) is not the host's memory, the only kind this build takes",
                    what, device.first, device.second));
  py::object capsule = object.attr("__dlpack__")();
  auto* managed = static_cast<dlpack::DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (!managed) throw py::error_already_set();
  const dlpack::DLTensor& t = managed->dl_tensor;
  const char kind = t.dtype.code == dlpack::float_code    ? 'f'
                    : t.dtype.code == dlpack::int_code    ? 'i'
                    : t.dtype.code == dlpack::uint_code   ? 'u'
                    : t.dtype.code == dlpack::bfloat_code ? 'V'
                                                          : '?';
  const auto dtype =
      t.dtype.lanes == 1 && t.dtype.bits % 8 == 0 ? dtype_from(kind, t.dtype.bits / 8) : std::nullopt;
  if (!dtype)
    throw ShapeError(fmt::format("{}: DLPack type (code {}, {} bits, {} lanes) has no counterpart", what,
                                 t.dtype.code, t.dtype.bits, t.dtype.lanes));
  const std::vector<std::int64_t> shape(t.shape, t.shape + t.ndim);
  if (t.strides) require_row_major(what, shape, std::vector<std::int64_t>(t.strides, t.strides + t.ndim));
  // From here on the tensor is ours to give back.
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  std::shared_ptr<void> owner(managed, [](void* p) {
    if (!Py_IsInitialized() || _Py_IsFinalizing()) return;
    py::gil_scoped_acquire lock;
    auto* m = static_cast<dlpack::DLManagedTensor*>(p);
    if (m->deleter) m->deleter(m);
  });
  return Tensor::from_blob(static_cast<char*>(t.data) + t.byte_offset, shape_of(shape), *dtype, Device{},
                           owner);
}

}  // namespace

Tensor import_array(const py::object& object, const char* what, bool written) {
  if (py::isinstance<py::array>(object))
    return import_numpy(py::reinterpret_borrow<py::array>(object), what, written);
  if (py::hasattr(object, "__dlpack__") && py::hasattr(object, "__dlpack_device__"))
    return import_dlpack(object, what);
  throw py::type_error(fmt::format("{}: a NumPy array or an object with __dlpack__ is expected, not {}", what,
                                   py::str(py::type::handle_of(object)).cast<std::string>()));
}

py::array export_array(const Tensor& tensor) {
  static constexpr const char* names[] = {"float32", "float64", "float16", nullptr, "int32",
                                          "int64",   "uint8",   "uint16",  "uint32"};
  const char* type = names[static_cast<int>(tensor.dtype())];
  if (!type) throw ShapeError(fmt::format("{} has no NumPy dtype", tensor.str()));
  if (tensor.device().type != DeviceType::cpu)
    throw DeviceError(fmt::format("{} is not in the host's memory", tensor.str()));
  std::vector<py::ssize_t> shape;
  for (int i = 0; i < tensor.shape().rank(); ++i) shape.push_back(tensor.shape()[i]);
  std::vector<py::ssize_t> strides(shape.size());  // bytes
  for (std::size_t i = strides.size(), n = size_of(tensor.dtype()); i-- > 0; n *= shape[i])
    strides[i] = static_cast<py::ssize_t>(n);
  if (!tensor.is_dense()) strides[0] = tensor.leading_stride() * size_of(tensor.dtype());
  py::capsule keeper(new Tensor(tensor), [](void* p) { delete static_cast<Tensor*>(p); });
  return py::array(py::dtype(type), shape, strides, tensor.data(), keeper);
}

}  // namespace shoal::python
