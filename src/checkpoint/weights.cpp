#include "shoal/checkpoint/weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "shoal/core/error.hpp"

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
    if (!p->value.defined() || p->value.dtype() != DType::f32 || p->value.device().type != DeviceType::cpu)
      throw CheckpointError(fmt::format("{}: parameter {}: expected an f32 value on cpu, found {}", path,
                                        p->name, p->value.str()));
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
    } else if (it->second.dtype != DType::f32 || it->second.shape != info.shape) {
      different.push_back(fmt::format("{} (expected f32{}, found {}{})", info.name, info.shape.str(),
                                      name(it->second.dtype), it->second.shape.str()));
    }
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
  for (const Logical& l : tensors) infos.push_back({l.info().name, DType::f32, l.info().shape});
  std::vector<float> buffer;
  write_safetensors(path, infos, metadata, [&](std::size_t i) {
    buffer.resize(static_cast<std::size_t>(infos[i].shape.numel()));
    const nn::Parameter& p = *tensors[i].parameter;
    shard::gather_logical(p.placement, tensors[i].tensor, p.value.base<float>(), buffer.data(),
                          p.value.leading_stride());
    return static_cast<const void*>(buffer.data());
  });
}

Metadata load_weights(const std::string& path, std::span<nn::Parameter* const> parameters) {
  const SafetensorsFile file(path);
  const std::vector<Logical> tensors = logical_tensors(path, parameters);
  check_fits(file, tensors);
  for (nn::Parameter* p : parameters)
    for (std::int64_t piece = 0; piece < p->pieces(); ++piece)
      std::fill_n(p->value.select(piece).as<float>(), p->shape.tail().numel(), 0.0f);
  std::vector<float> buffer;  // the file's data need not be aligned
  for (const Logical& l : tensors) {
    const auto bytes = file.bytes(file.at(l.info().name));
    buffer.resize(bytes.size() / sizeof(float));
    if (!bytes.empty()) std::memcpy(buffer.data(), bytes.data(), bytes.size());
    shard::scatter_logical(l.parameter->placement, l.tensor, buffer.data(), l.parameter->value.base<float>(),
                           l.parameter->value.leading_stride());
  }
  return file.metadata();
}

}  // namespace shoal::checkpoint
