#include "shoal/checkpoint/weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <set>
#include <vector>

#include "shoal/core/error.hpp"
#include "shoal/ops/cast.hpp"

namespace shoal::checkpoint {
namespace {

struct Logical {
  nn::Parameter* parameter;
  int tensor;  // in its placement
  const shard::LogicalTensor& info() const { return parameter->placement.logical[tensor]; }
};

std::vector<Logical> logical_tensors(const std::string& path, std::span<nn::Parameter* const> parameters) {
  std::vector<Logical> list;
  std::set<std::string> names;
  for (nn::Parameter* p : parameters) {
    if (!p->value.defined() || !ops::is_training_type(p->value.dtype()) ||
        p->value.device().type != DeviceType::cpu)
      throw CheckpointError(
          fmt::format("{}: parameter {}: expected an f32, bf16 or f16 value on cpu, found {}", path, p->name,
                      p->value.str()));
    const shard::Placement& placement = p->placement;
    const std::int64_t stored = static_cast<std::int64_t>(placement.pieces.size()) * placement.piece_numel;
    if (stored != p->value.numel() ||
        (!p->value.is_dense() && p->value.dim(0) != static_cast<std::int64_t>(placement.pieces.size())))
      throw CheckpointError(
          fmt::format("{}: parameter {}: its placement has {} pieces of {} elements, its value is {}", path,
                      p->name, placement.pieces.size(), placement.piece_numel, p->value.str()));
    for (int t = 0; t < static_cast<int>(placement.logical.size()); ++t) {
      const Logical logical{p, t};
      std::int64_t held = 0;
      for (const auto& piece : placement.pieces)
        for (const auto& b : piece)
          if (b.tensor == t) held += b.box.rows * b.box.cols;
      if (held != logical.info().shape.numel())
        throw CheckpointError(fmt::format("{}: tensor {}: this rank holds {} of its {} elements", path,
                                          logical.info().name, held, logical.info().shape.numel()));
      if (!names.insert(logical.info().name).second)
        throw CheckpointError(fmt::format("{}: two tensors named {}", path, logical.info().name));
      list.push_back(logical);
    }
  }
  return list;
}

// "a, b, c and 4 more".
std::string some_of(const std::vector<std::string>& names) {
  const std::size_t shown = std::min<std::size_t>(names.size(), 8);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

void check_fits(const SafetensorsFile& file, const std::vector<Logical>& wanted) {
  std::vector<std::string> missing, unexpected, different;
  std::set<std::string> names;
  for (const Logical& l : wanted) {
    const shard::LogicalTensor& info = l.info();
    names.insert(info.name);
    const auto it = file.tensors().find(info.name);
    if (it == file.tensors().end()) {
      missing.push_back(info.name);
      continue;
    }
    // What is narrower is widened, exactly; what is wider, or of the other 16 bits, would lose bits.
    const DType have = it->second.dtype, want = l.parameter->value.dtype();
    const bool fits = have == want || (want == DType::f32 && ops::is_training_type(have));
    if (!fits || it->second.shape != info.shape)
      different.push_back(fmt::format("{} (expected {}{}, found {}{})", info.name, name(want),
                                      info.shape.str(), name(have), it->second.shape.str()));
  }
  for (const auto& [key, entry] : file.tensors())
    if (!names.contains(key)) unexpected.push_back(key);
  std::string text;
  if (!missing.empty()) text += fmt::format("; missing: {}", some_of(missing));
  if (!unexpected.empty()) text += fmt::format("; not expected: {}", some_of(unexpected));
  if (!different.empty()) text += fmt::format("; different: {}", some_of(different));
  if (!text.empty())
    throw CheckpointError(fmt::format("{}: the weights do not fit the model{}", file.path(), text));
}

}  // namespace

void save_weights(const std::string& path, std::span<nn::Parameter* const> parameters,
                  const Metadata& metadata) {
  const std::vector<Logical> tensors = logical_tensors(path, parameters);
  std::vector<TensorInfo> infos;
  infos.reserve(tensors.size());
  for (const Logical& l : tensors)
    infos.push_back({l.info().name, l.parameter->value.dtype(), l.info().shape});
  std::vector<std::byte> buffer;
  write_safetensors(path, infos, metadata, [&](std::size_t i) {
    const std::int64_t element = size_of(infos[i].dtype);
    buffer.resize(static_cast<std::size_t>(infos[i].shape.numel() * element));
    const nn::Parameter& p = *tensors[i].parameter;
    shard::gather_logical_bytes(p.placement, tensors[i].tensor, element, p.value.data(), buffer.data(),
                                p.value.leading_stride());
    return static_cast<const void*>(buffer.data());
  });
}

Metadata load_weights(const std::string& path, std::span<nn::Parameter* const> parameters) {
  const SafetensorsFile file(path);
  const std::vector<Logical> tensors = logical_tensors(path, parameters);
  check_fits(file, tensors);
  for (nn::Parameter* p : parameters)
    for (std::int64_t piece = 0; piece < p->pieces(); ++piece) {
      const Tensor all = p->value.select(piece);
      std::memset(all.data(), 0, static_cast<std::size_t>(all.nbytes()));
    }
  std::vector<std::byte> read, buffer;  // the file's data need not be aligned
  for (const Logical& l : tensors) {
    const SafetensorsFile::Entry& entry = file.at(l.info().name);
    const auto bytes = file.bytes(entry);
    const Tensor& value = l.parameter->value;
    read.assign(bytes.begin(), bytes.end());
    buffer.resize(static_cast<std::size_t>(entry.shape.numel() * size_of(value.dtype())));
    ops::cast(entry.dtype, read.data(), value.dtype(), buffer.data(), entry.shape.numel());
    shard::scatter_logical_bytes(l.parameter->placement, l.tensor, size_of(value.dtype()), buffer.data(),
                                 value.data(), value.leading_stride());
  }
  return file.metadata();
}

}  // namespace shoal::checkpoint
