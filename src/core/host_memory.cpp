#include "shoal/core/host_memory.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace shoal {
namespace {

// The number that follows `name` at the beginning of a line ("MemTotal: 123 kB", "file 456").
std::optional<std::int64_t> field(const std::string& path, const std::string& name) {
  std::ifstream in(path);
  std::string word;
  for (std::string line; in >> word; std::getline(in, line)) {
    std::int64_t value = 0;
    if (word == name && in >> value) return value;
  }
  return std::nullopt;
}

std::optional<std::int64_t> number(const std::string& path) {
  std::ifstream in(path);
  std::int64_t value = 0;
  if (in >> value) return value;  // "max" is none
  return std::nullopt;
}

// What a group's limit leaves; files that it has cached can be dropped.
void confine(HostMemory& memory, const std::string& limit, const std::string& used, const std::string& stat,
             const std::string& cached) {
  const auto most = number(limit), now = number(used);
  if (!most || !now) return;
  memory.total = memory.total > 0 ? std::min(memory.total, *most) : *most;
  const std::int64_t left = *most - *now + field(stat, cached).value_or(0);
  memory.available = std::clamp<std::int64_t>(left, 0, memory.available > 0 ? memory.available : left);
}

}  // namespace

HostMemory host_memory() {
  constexpr std::int64_t kib = 1024;
  const char* info = "/proc/meminfo";
  HostMemory memory;
  memory.total = kib * (field(info, "MemTotal:").value_or(0) + field(info, "SwapTotal:").value_or(0));
  memory.available = kib * field(info, "MemAvailable:").value_or(0);

  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::")) continue;
    const std::string root = "/sys/fs/cgroup", own = root + line.substr(3);
    for (const std::string& at : {own, root})  // inside a container the own group is often seen as the root
      confine(memory, at + "/memory.max", at + "/memory.current", at + "/memory.stat", "file");
  }
  const std::string v1 = "/sys/fs/cgroup/memory";
  confine(memory, v1 + "/memory.limit_in_bytes", v1 + "/memory.usage_in_bytes", v1 + "/memory.stat", "cache");
  return memory;
}

}  // namespace shoal
