// Which instruction set the CPU kernels use, chosen once a process.
#pragma once
#include <string>

namespace shoal {

enum class Isa { generic, avx2, avx512 };

// The best that the processor has and the build contains; SHOAL_CPU_ISA lowers it, and is refused
// (ConfigError) where it asks for more.
Isa isa();
std::string name(Isa isa);
std::string cpu_model();  // as the system names it

}  // namespace shoal
