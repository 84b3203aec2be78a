#include "shoal/core/tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
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
  t.storage_ =
      std::shared_ptr<void>(t.data_, [allocator, nbytes](void* p) { allocator->deallocate(p, nbytes); });
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

void Tensor::require_dense() const {
  if (!is_dense())
    throw ShapeError(
        fmt::format("expected a tensor without gaps, got {}: its entries of dimension 0 are {} "
                    "elements long and begin {} apart",
                    str(), shape_.tail().numel(), stride_));
}

void Tensor::set_stride(std::int64_t stride) {
  stride_ = shape_.rank() < 1 || shape_[0] <= 1 || stride == shape_.tail().numel() ? 0 : stride;
}

Tensor Tensor::slice(std::int64_t begin, std::int64_t end) const {
  if (shape_.rank() < 1 || begin < 0 || end < begin || end > shape_[0])
    throw ShapeError(fmt::format("slice [{}, {}) of a tensor {}", begin, end, str()));
  Tensor t = *this;
  t.shape_ = shape_.with_leading(end - begin);
  t.data_ = static_cast<char*>(data_) + begin * leading_stride() * size_of(dtype_);
  t.set_stride(leading_stride());
  return t;
}

Tensor Tensor::select(std::int64_t row) const {
  Tensor t = slice(row, row + 1);
  t.shape_ = shape_.tail();
  return t;
}

Tensor Tensor::view(const Shape& shape) const {
  require_dense();
  if (shape.numel() != shape_.numel())
    throw ShapeError(fmt::format("a view of shape {} of a tensor {}", shape.str(), str()));
  Tensor t = *this;
  t.shape_ = shape;
  return t;
}

Tensor Tensor::view(const Shape& shape, std::int64_t leading_stride) const {
  require_dense();
  const std::int64_t entries = shape.rank() > 0 ? shape[0] : 0,
                     length = shape.rank() > 0 ? shape.tail().numel() : 0;
  if (shape.rank() < 1 || leading_stride < length ||
      (entries > 0 && (entries - 1) * leading_stride + length > shape_.numel()))
    throw ShapeError(
        fmt::format("a view of shape {} and stride {} of a tensor {}", shape.str(), leading_stride, str()));
  Tensor t = *this;
  t.shape_ = shape;
  t.set_stride(leading_stride);
  return t;
}

std::string Tensor::str() const {
  if (!defined()) return "undefined";
  return fmt::format("{}{}{} on {}", name(dtype_), shape_.str(),
                     is_dense() ? std::string() : fmt::format(" (stride {})", stride_), device_.str());
}

namespace {

// The bytes of a tensor as runs without gaps: byte `at` lies `offset(at)` from the start, and `left(at)` follow it.
struct Runs {
  std::int64_t length, stride;
  explicit Runs(const Tensor& t)
      : length(t.is_dense() ? t.nbytes() : t.shape().tail().numel() * size_of(t.dtype())),
        stride(t.is_dense() ? length : t.leading_stride() * size_of(t.dtype())) {}
  std::int64_t offset(std::int64_t at) const { return at / length * stride + at % length; }
  std::int64_t left(std::int64_t at) const { return length - at % length; }
};

}  // namespace

void copy(const Stream& stream, const Tensor& src, const Tensor& dst) {
  if (src.dtype() != dst.dtype() || src.numel() != dst.numel())
    throw ShapeError(fmt::format("copy of a tensor {} to {}", src.str(), dst.str()));
  const bool same = src.is_dense() == dst.is_dense() && (src.is_dense() || src.shape() == dst.shape()) &&
                    (src.is_dense() || src.leading_stride() == dst.leading_stride());
  if (src.numel() == 0 || (src.data() == dst.data() && same)) return;
  cpu_stream(stream).submit([src, dst] {
    const Runs from(src), to(dst);
    for (std::int64_t at = 0, n = 0; at < src.nbytes(); at += n) {
      n = std::min(from.left(at), to.left(at));
      std::memcpy(static_cast<char*>(dst.data()) + to.offset(at),
                  static_cast<const char*>(src.data()) + from.offset(at), n);
    }
  });
}

void fill_zero(const Stream& stream, const Tensor& t) {
  if (t.numel() == 0) return;
  cpu_stream(stream).submit([t] {
    const Runs to(t);
    for (std::int64_t at = 0; at < t.nbytes(); at += to.length)
      std::memset(static_cast<char*>(t.data()) + to.offset(at), 0, to.length);
  });
}

}  // namespace shoal
