#include "shoal/core/cpu_info.hpp"

#include <fmt/format.h>

#include <fstream>

#include "shoal/core/env.hpp"
#include "shoal/core/error.hpp"

namespace shoal {
namespace {

Isa best() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("fma"))
    return Isa::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::avx2;
#endif
  return Isa::generic;
}

Isa choose() {
  const Isa have = best();
  const auto asked = env::cpu_isa();
  if (!asked) return have;
  for (Isa i : {Isa::generic, Isa::avx2, Isa::avx512}) {
    if (*asked != name(i)) continue;
    if (i > have)
      throw ConfigError(fmt::format("SHOAL_CPU_ISA={}: this processor has {} at most", *asked, name(have)));
    return i;
  }
  throw ConfigError(fmt::format("SHOAL_CPU_ISA={}: expected generic, avx2 or avx512", *asked));
}

}  // namespace

Isa isa() {
  static const Isa chosen = choose();
  return chosen;
}

std::string name(Isa isa) {
  switch (isa) {
    case Isa::generic: return "generic";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
  }
  return "?";
}

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown";
}

}  // namespace shoal
