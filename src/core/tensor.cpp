#include "shoal/core/tensor.hpp"

#include <fmt/format.h>

#include <cstring>

#include "core/cpu/cpu_stream.hpp"
#include "shoal/core/error.hpp"

namespace shoal {

Tensor Tensor::empty(const Shape& shape, DType dtype, std::shared_ptr<Allocator> allocator) {
  const std::int64_t nbytes = shape.numel() * size_of(dtype);
  Tensor t;
  t.data_ = allocator->allocate(nbytes);
  t.device_ = allocator->device();
  t.shape_ = shape;
  t.dtype_ = dtype;
  // Zero elements still make a defined tensor.
  t.storage_ = std::shared_ptr<void>(
      t.data_, [allocator, nbytes](void* p) { allocator->deallocate(p, nbytes); });
  return t;
}

Tensor Tensor::empty(const Shape& shape, DType dtype, const Stream& stream) {
  return empty(shape, dtype, stream.allocator());
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, const Stream& stream) {
  Tensor t = empty(shape, dtype, stream);
  fill_zero(stream, t);
  return t;
}

Tensor Tensor::from_blob(void* data, const Shape& shape, DType dtype, Device device,
                         std::shared_ptr<void> owner) {
  Tensor t;
  t.data_ = data;
  t.device_ = device;
  t.shape_ = shape;
  t.dtype_ = dtype;
  t.storage_ = std::shared_ptr<void>(data, [owner](void*) {});
  return t;
}

void Tensor::require(DType dtype) const {
  if (!defined()) throw ShapeError("an undefined tensor was used");
  if (dtype_ != dtype)
    throw ShapeError(fmt::format("expected dtype {}, got a tensor {}", name(dtype), str()));
}

Tensor Tensor::slice(std::int64_t begin, std::int64_t end) const {
  if (shape_.rank() < 1 || begin < 0 || end < begin || end > shape_[0])
    throw ShapeError(fmt::format("slice [{}, {}) of a tensor {}", begin, end, str()));
  Tensor t = *this;
  t.shape_ = shape_.with_leading(end - begin);
  t.data_ = static_cast<char*>(data_) + begin * shape_.tail().numel() * size_of(dtype_);
  return t;
}

Tensor Tensor::select(std::int64_t row) const {
  Tensor t = slice(row, row + 1);
  t.shape_ = shape_.tail();
  return t;
}

Tensor Tensor::view(const Shape& shape) const {
  if (shape.numel() != shape_.numel())
    throw ShapeError(fmt::format("a view of shape {} of a tensor {}", shape.str(), str()));
  Tensor t = *this;
  t.shape_ = shape;
  return t;
}

std::string Tensor::str() const {
  return defined() ? fmt::format("{}{} on {}", name(dtype_), shape_.str(), device_.str())
                   : std::string("undefined");
}

void copy(const Stream& stream, const Tensor& src, const Tensor& dst) {
  if (src.dtype() != dst.dtype() || src.numel() != dst.numel())
    throw ShapeError(fmt::format("copy of a tensor {} to {}", src.str(), dst.str()));
  if (src.data() == dst.data() || src.numel() == 0) return;
  cpu_stream(stream).submit([src, dst] { std::memcpy(dst.data(), src.data(), src.nbytes()); });
}

void fill_zero(const Stream& stream, const Tensor& t) {
  if (t.numel() == 0) return;
  cpu_stream(stream).submit([t] { std::memset(t.data(), 0, t.nbytes()); });
}

}  // namespace shoal
