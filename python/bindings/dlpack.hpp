// The C structures of DLPack (version 0.x, which every library still speaks), as its specification gives them.
#pragma once
#include <cstdint>

namespace shoal::python::dlpack {

constexpr std::int32_t cpu = 1;                                                       // DLDeviceType
constexpr std::uint8_t int_code = 0, uint_code = 1, float_code = 2, bfloat_code = 4;  // DLDataTypeCode

struct DLDevice {
  std::int32_t device_type, device_id;
};
struct DLDataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: row-major
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};

}  // namespace shoal::python::dlpack
