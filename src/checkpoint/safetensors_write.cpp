#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <numeric>

#include "checkpoint/safetensors_dtype.hpp"
#include "shoal/checkpoint/safetensors.hpp"
#include "shoal/core/error.hpp"

namespace shoal::checkpoint {

static_assert(std::endian::native == std::endian::little, "safetensors files are little endian");

void write_safetensors(const std::string& path, std::span<const TensorInfo> infos, const Metadata& metadata,
                       const std::function<const void*(std::size_t)>& data) {
  std::vector<std::size_t> order(infos.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const std::int64_t wide_a = size_of(infos[a].dtype), wide_b = size_of(infos[b].dtype);
    return wide_a != wide_b ? wide_a > wide_b : infos[a].name < infos[b].name;
  });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::int64_t at = 0;
  for (std::size_t i : order) {
    const TensorInfo& info = infos[i];
    if (info.name.empty() || info.name == "__metadata__")
      throw CheckpointError(fmt::format("{}: a tensor cannot be named '{}'", path, info.name));
    if (header.contains(info.name))
      throw CheckpointError(fmt::format("{}: two tensors named {}", path, info.name));
    const std::int64_t end = at + info.shape.numel() * size_of(info.dtype);
    nlohmann::ordered_json& entry = header[info.name];
    entry["dtype"] = safetensors_name(info.dtype);
    entry["shape"] = std::vector<std::int64_t>(info.shape.begin(), info.shape.end());
    entry["data_offsets"] = {at, end};
    at = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& e) {
    throw CheckpointError(fmt::format("{}: names and metadata must be UTF-8: {}", path, e.what()));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data is aligned to 8 bytes
  if (static_cast<std::int64_t>(text.size()) > max_header_bytes)
    throw CheckpointError(
        fmt::format("{}: a header of {} bytes: at most {}", path, text.size(), max_header_bytes));

  AtomicFile file(path, raise<CheckpointError>);
  const std::uint64_t length = text.size();
  file.append(&length, sizeof(length));
  file.append(text.data(), text.size());
  for (std::size_t i : order) {
    const std::int64_t nbytes = infos[i].shape.numel() * size_of(infos[i].dtype);
    if (nbytes > 0) file.append(data(i), static_cast<std::size_t>(nbytes));
  }
  file.commit();
}

void write_safetensors(const std::string& path, std::span<const NamedArray> arrays,
                       const Metadata& metadata) {
  std::vector<TensorInfo> infos;
  for (const NamedArray& a : arrays) infos.push_back(a.info);
  write_safetensors(path, infos, metadata, [&](std::size_t i) { return arrays[i].data; });
}

}  // namespace shoal::checkpoint
