#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/safetensors_dtype.hpp"
#include "shoal/checkpoint/safetensors.hpp"
#include "shoal/core/error.hpp"

namespace shoal::checkpoint {
namespace {

using json = nlohmann::json;

// JSON's last of two equal keys would win without a word: refused, at any depth. The format nests three deep.
json parse_header(const std::string& path, std::string_view text) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    const bool object = event == json::parse_event_t::object_start;
    if (depth > 2 && (object || event == json::parse_event_t::array_start))
      throw CheckpointError(fmt::format("{}: at offset 8: header: nested more than three deep", path));
    if (object) {
      keys.resize(std::max<std::size_t>(keys.size(), depth + 2));
      keys[depth + 1].clear();
    } else if (event == json::parse_event_t::key && !keys[depth].insert(value.get<std::string>()).second) {
      throw CheckpointError(
          fmt::format("{}: at offset 8: header: the key '{}' stands twice", path, value.get<std::string>()));
    }
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::exception& e) {
    throw CheckpointError(fmt::format("{}: at offset 8: header: expected JSON: {}", path, e.what()));
  }
}

std::int64_t whole_number(const json& value, const std::string& where, const char* what) {
  if (!value.is_number_unsigned() ||
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    throw CheckpointError(fmt::format("{}: {}: expected a whole number of 0 or more, found {}", where, what,
                                      value.dump(-1, ' ', false, json::error_handler_t::replace)));
  return value.get<std::int64_t>();
}

// Reads one entry; its offsets are checked against the data's size, its size against its shape.
SafetensorsFile::Entry read_entry(const std::string& where, const json& value, std::int64_t data_at,
                                  std::int64_t data_bytes) {
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets"))
    throw CheckpointError(fmt::format("{}: expected an object of dtype, shape and data_offsets", where));
  const json &type = value["dtype"], &extents = value["shape"], &offsets = value["data_offsets"];
  SafetensorsFile::Entry entry;
  const auto dtype =
      type.is_string() ? parse_safetensors_dtype(type.get_ref<const std::string&>()) : std::nullopt;
  if (!dtype)
    throw CheckpointError(
        fmt::format("{}: dtype: expected one of F64, F32, F16, BF16, I64, I32, U32, U16, U8, found {}", where,
                    type.dump()));
  entry.dtype = *dtype;
  if (!extents.is_array() || extents.size() > Shape::max_rank)
    throw CheckpointError(
        fmt::format("{}: shape: expected a list of at most {} extents", where, Shape::max_rank));
  std::vector<std::int64_t> shape;
  std::int64_t nbytes = size_of(*dtype);
  for (const json& extent : extents) {
    shape.push_back(whole_number(extent, where, "shape"));
    if (__builtin_mul_overflow(nbytes, shape.back(), &nbytes))
      throw CheckpointError(fmt::format("{}: shape: {} elements do not fit 64 bits", where, extents.dump()));
  }
  entry.shape = Shape(shape.data(), static_cast<int>(shape.size()));
  if (!offsets.is_array() || offsets.size() != 2)
    throw CheckpointError(fmt::format("{}: data_offsets: expected two numbers", where));
  const std::int64_t first = whole_number(offsets[0], where, "data_offsets");
  const std::int64_t last = whole_number(offsets[1], where, "data_offsets");
  if (first > last || last > data_bytes)
    throw CheckpointError(
        fmt::format("{}: data_offsets: expected a range within the {} bytes of data, found [{}, {}]", where,
                    data_bytes, first, last));
  if (last - first != nbytes)
    throw CheckpointError(fmt::format("{}: data_offsets: expected {} bytes for {}{}, found {}", where, nbytes,
                                      name(*dtype), entry.shape.str(), last - first));
  entry.offset = data_at + first;
  entry.nbytes = nbytes;
  return entry;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path, raise<CheckpointError>) {
  const std::int64_t size = file_.size();
  if (size < 8)
    throw CheckpointError(fmt::format(
        "{}: at offset {}: cut short: expected 8 bytes of header length, found {}", path, size, size));
  std::uint64_t length = 0;
  std::memcpy(&length, file_.data(), sizeof(length));
  if (length < 2 || length > static_cast<std::uint64_t>(max_header_bytes))
    throw CheckpointError(
        fmt::format("{}: at offset 0: header length: expected 2 to {}, found {} (not a safetensors "
                    "file, or damaged)",
                    path, max_header_bytes, length));
  if (static_cast<std::int64_t>(length) > size - 8)
    throw CheckpointError(fmt::format("{}: at offset 8: cut short in the header: expected {} bytes, found {}",
                                      path, length, size - 8));
  const std::int64_t data_at = 8 + static_cast<std::int64_t>(length), data_bytes = size - data_at;
  const std::string_view text(reinterpret_cast<const char*>(file_.data()) + 8, length);
  if (text[0] != '{')
    throw CheckpointError(fmt::format("{}: at offset 8: header: expected '{{', found byte {:02x}", path,
                                      static_cast<unsigned char>(text[0])));
  const json header = parse_header(path, text);

  std::vector<std::pair<std::string, Entry>> by_offset;
  for (const auto& [key, value] : header.items()) {
    if (key == "__metadata__") {
      if (!value.is_object())
        throw CheckpointError(fmt::format("{}: __metadata__: expected an object", path));
      for (const auto& [name, text_value] : value.items()) {
        if (!text_value.is_string())
          throw CheckpointError(fmt::format("{}: __metadata__: {}: expected a string, found {}", path, name,
                                            text_value.type_name()));
        metadata_[name] = text_value.get<std::string>();
      }
      continue;
    }
    by_offset.emplace_back(key,
                           read_entry(fmt::format("{}: tensor {}", path, key), value, data_at, data_bytes));
  }
  std::sort(by_offset.begin(), by_offset.end(), [](const auto& a, const auto& b) {
    return a.second.offset != b.second.offset ? a.second.offset < b.second.offset
                                              : a.second.nbytes < b.second.nbytes;
  });
  std::int64_t at = data_at;
  for (auto& [name, entry] : by_offset) {
    if (entry.offset != at)
      throw CheckpointError(
          fmt::format("{}: tensor {}: its data {} what lies before: expected offset {}, found {}", path, name,
                      entry.offset < at ? "overlaps" : "leaves a gap after", at, entry.offset));
    at += entry.nbytes;
    tensors_.emplace(std::move(name), entry);
  }
  if (at != size)
    throw CheckpointError(fmt::format("{}: at offset {}: bytes after the last tensor: expected 0, found {}",
                                      path, at, size - at));
}

const SafetensorsFile::Entry& SafetensorsFile::at(const std::string& name) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end())
    throw CheckpointError(fmt::format("{}: no tensor named {} among its {}", path(), name, tensors_.size()));
  return it->second;
}

}  // namespace shoal::checkpoint
