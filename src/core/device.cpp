#include "shoal/core/device.hpp"

#include <fmt/format.h>

#include <charconv>

#include "shoal/core/error.hpp"

namespace shoal {

std::string Device::str() const {
  return type == DeviceType::cpu ? std::string("cpu") : fmt::format("cuda:{}", index);
}

Device parse_device(const std::string& text) {
  if (text == "cpu") return {DeviceType::cpu, 0};
  if (text == "cuda") return {DeviceType::cuda, 0};
  if (text.rfind("cuda:", 0) == 0) {
    int index = 0;
    const char* last = text.data() + text.size();
    auto [end, status] = std::from_chars(text.data() + 5, last, index);
    if (status == std::errc{} && end == last && index >= 0) return {DeviceType::cuda, index};
  }
  throw ConfigError(fmt::format("device \"{}\": expected cpu, cuda or cuda:N", text));
}

}  // namespace shoal
