// What kind of device a tensor lives on. The code above ops and comm only passes this along.
#pragma once
#include <string>

namespace shoal {

enum class DeviceType : unsigned char { cpu, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
  std::string str() const;  // "cpu", "cuda:1"
};

// "cpu", "cuda", "cuda:3"; throws ConfigError on anything else.
Device parse_device(const std::string& text);

}  // namespace shoal
