// Plain safetensors files, as the Python package of that name writes them: 8 bytes of header length, little endian; a
// JSON object of name -> {dtype, shape, data_offsets} and an optional "__metadata__" of strings; the data,
// without gaps. No code in a file is ever run.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "shoal/core/dtype.hpp"
#include "shoal/core/file.hpp"
#include "shoal/core/shape.hpp"

namespace shoal::checkpoint {

using Metadata = std::map<std::string, std::string>;

inline constexpr std::int64_t max_header_bytes = 100'000'000;  // the Python package's own limit

struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;  // row-major
};

// A tensor of the caller's host memory.
struct NamedArray {
  TensorInfo info;
  const void* data = nullptr;
};

// Writes a file, whole or not at all. Tensors lie by element size, largest first, then by name, as the Python
// package writes them. data(i) gives the bytes of infos[i]; it is asked in the file's order, and what it gives
// must last until it is asked again. Throws CheckpointError: a name twice, empty or "__metadata__", text that is not
// UTF-8, a header above max_header_bytes, and the system's reasons.
void write_safetensors(const std::string& path, std::span<const TensorInfo> infos, const Metadata& metadata,
                       const std::function<const void*(std::size_t)>& data);
void write_safetensors(const std::string& path, std::span<const NamedArray> arrays,
                       const Metadata& metadata = {});

// A memory-mapped file. All of the header is checked when it is opened, before anything is allocated by it:
// lengths, offsets in range, size = shape x dtype, no overlap and no gap, no name twice. Throws
// CheckpointError naming file, offset, expected and found.
class SafetensorsFile {
 public:
  struct Entry {
    DType dtype = DType::f32;
    Shape shape;
    std::int64_t offset = 0;  // in the file
    std::int64_t nbytes = 0;
  };

  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const Metadata& metadata() const { return metadata_; }
  const std::map<std::string, Entry>& tensors() const { return tensors_; }  // by name
  // Throws CheckpointError when there is none of that name.
  const Entry& at(const std::string& name) const;
  // The data, which need not be aligned to its type.
  std::span<const std::byte> bytes(const Entry& entry) const {
    return file_.bytes().subspan(static_cast<std::size_t>(entry.offset),
                                 static_cast<std::size_t>(entry.nbytes));
  }

 private:
  MappedFile file_;
  Metadata metadata_;
  std::map<std::string, Entry> tensors_;
};

}  // namespace shoal::checkpoint
