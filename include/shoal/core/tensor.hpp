// A contiguous, row-major tensor: reference-counted storage on a device, with dtype and shape.
// A Tensor is a handle: copies and views share memory.
#pragma once
#include <memory>

#include "shoal/core/dtype.hpp"
#include "shoal/core/shape.hpp"
#include "shoal/core/stream.hpp"

namespace shoal {

class Tensor {
 public:
  Tensor() = default;  // undefined: defined() is false, data() is null

  // Memory from the stream's allocator, not cleared. Throws DeviceError when there is none.
  static Tensor empty(const Shape& shape, DType dtype, const Stream& stream);
  static Tensor zeros(const Shape& shape, DType dtype, const Stream& stream);  // cleared in stream order
  // Memory from any allocator (a communicator's, for one).
  static Tensor empty(const Shape& shape, DType dtype, std::shared_ptr<Allocator> allocator);
  // The caller's memory, kept alive by `owner` (which may be null: then the caller sees to it).
  static Tensor from_blob(void* data, const Shape& shape, DType dtype, Device device,
                          std::shared_ptr<void> owner = nullptr);

  // The storage of an empty tensor is null but owned.
  bool defined() const { return storage_.use_count() != 0; }
  const Shape& shape() const { return shape_; }
  std::int64_t dim(int i) const { return shape_[i < 0 ? i + shape_.rank() : i]; }
  std::int64_t numel() const { return defined() ? shape_.numel() : 0; }
  std::int64_t nbytes() const { return numel() * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }

  void* data() const { return data_; }
  // The data as T*; throws ShapeError when the dtype is another.
  template <class T> T* as() const {
    require(dtype_of<T>::value);
    return static_cast<T*>(data_);
  }
  void require(DType dtype) const;

  // Views. Rows [begin, end) of the leading dimension; one row, without it; another shape of as many elements.
  Tensor slice(std::int64_t begin, std::int64_t end) const;
  Tensor select(std::int64_t row) const;
  Tensor view(const Shape& shape) const;
  Tensor flat() const { return view({numel()}); }
  std::string str() const;  // "f32[2, 3] on cpu"

 private:
  std::shared_ptr<void> storage_;
  void* data_ = nullptr;
  Shape shape_;
  DType dtype_ = DType::f32;
  Device device_;
};

// dst = src, in stream order; shapes may differ, dtype and element count may not.
void copy(const Stream& stream, const Tensor& src, const Tensor& dst);
// Every byte 0, in stream order.
void fill_zero(const Stream& stream, const Tensor& t);

}  // namespace shoal
