// Small arrays between the host and a stream's device.
#pragma once
#include <cstdint>
#include <vector>

#include "shoal/core/tensor.hpp"
#include "shoal/ops/cast.hpp"

namespace shoal::train {

template <class T>
Tensor host_view(std::vector<T>& v) {
  return Tensor::from_blob(v.data(), {static_cast<std::int64_t>(v.size())}, dtype_of<T>::value, Device{});
}

template <class T>
Tensor to_device(const Stream& stream, std::vector<T> v) {
  const Tensor t = Tensor::empty({static_cast<std::int64_t>(v.size())}, dtype_of<T>::value, stream);
  copy(stream, host_view(v), t);
  stream.synchronize();
  return t;
}

template <class T>
std::vector<T> to_host(const Stream& stream, const Tensor& t) {
  std::vector<T> v(static_cast<std::size_t>(t.numel()));
  copy(stream, t.flat(), host_view(v));
  stream.synchronize();
  return v;
}

// Of a training type, widened.
inline std::vector<float> to_host_f32(const Stream& stream, const Tensor& t) {
  if (t.dtype() == DType::f32) return to_host<float>(stream, t);
  std::vector<std::uint16_t> narrow(static_cast<std::size_t>(t.numel()));
  copy(stream, t.flat(), Tensor::from_blob(narrow.data(), {t.numel()}, t.dtype(), Device{}));
  stream.synchronize();
  std::vector<float> v(narrow.size());
  ops::cast(t.dtype(), narrow.data(), DType::f32, v.data(), t.numel());
  return v;
}

}  // namespace shoal::train
