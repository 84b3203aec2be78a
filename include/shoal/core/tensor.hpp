// A row-major tensor: reference-counted storage on a device, with dtype and shape.
// A Tensor is a handle: copies and views share memory.
//
// It is dense, but for one case: entries of dimension 0, each dense, may lie further apart than they are long. So a
// parameter's pieces are stored, each padded to a multiple of 256 elements (docs/numerics.md, R8). What takes such a
// tensor says so; everything else goes through as(), which refuses it.
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
  std::int64_t nbytes() const { return numel() * size_of(dtype_); }  // of its elements, gaps not counted
  // No gaps. A tensor of one entry, or of none, always is.
  bool is_dense() const { return stride_ == 0; }
  // Elements from one entry of dimension 0 to the next; 1 in rank 0.
  std::int64_t leading_stride() const {
    return stride_ != 0 ? stride_ : shape_.rank() > 0 ? shape_.tail().numel() : 1;
  }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }

  void* data() const { return data_; }
  // The data as T*; throws ShapeError when the dtype is another or the tensor is not dense.
  template <class T>
  T* as() const {
    require(dtype_of<T>::value);
    require_dense();
    return static_cast<T*>(data_);
  }
  // The first element, also where there are gaps: for those who go by leading_stride().
  template <class T>
  T* base() const {
    require(dtype_of<T>::value);
    return static_cast<T*>(data_);
  }
  void require(DType dtype) const;
  void require_dense() const;

  // Views. Rows [begin, end) of the leading dimension; one row, without it; another shape of as many elements.
  // Views of another shape are of dense tensors only: ShapeError says so.
  Tensor slice(std::int64_t begin, std::int64_t end) const;
  Tensor select(std::int64_t row) const;
  Tensor view(const Shape& shape) const;
  Tensor flat() const { return view({numel()}); }
  // Entries of dimension 0 that begin `leading_stride` elements apart: at least as far as they are long, and the
  // last one ends within this tensor, which is dense.
  Tensor view(const Shape& shape, std::int64_t leading_stride) const;
  std::string str() const;  // "f32[2, 3] on cpu", "f32[2, 3] (stride 256) on cpu"

 private:
  void set_stride(std::int64_t stride);

  std::shared_ptr<void> storage_;
  void* data_ = nullptr;
  Shape shape_;
  std::int64_t stride_ = 0;  // of dimension 0; 0: dense
  DType dtype_ = DType::f32;
  Device device_;
};

// dst = src, in stream order; shapes and strides may differ, dtype and element count may not. Gaps are not touched.
void copy(const Stream& stream, const Tensor& src, const Tensor& dst);
// Every element 0, in stream order. Gaps are not touched.
void fill_zero(const Stream& stream, const Tensor& t);

}  // namespace shoal
