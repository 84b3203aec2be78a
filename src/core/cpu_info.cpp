#include "shoal/core/cpu_info.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <fmt/format.h>

#include <fstream>

#include "shoal/core/env.hpp"
#include "shoal/core/error.hpp"

namespace shoal {
namespace {

#if defined(__x86_64__)
// Not every compiler's __builtin_cpu_supports knows it.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

// Asks for everything that kernels/CMakeLists.txt lets the compiler use; avx2 and avx512 are only reported where the
// system saves those registers.
Isa best() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) return Isa::generic;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return Isa::avx512;
  return Isa::avx2;
#else
  return Isa::generic;
#endif
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
