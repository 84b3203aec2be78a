#include "shoal/core/text.hpp"

#include <fmt/format.h>

#include <cmath>

namespace shoal::text {

std::string number(double x) { return std::isnan(x) ? "nan" : fmt::format("{}", x); }
std::string number(float x) { return std::isnan(x) ? "nan" : fmt::format("{}", x); }

std::string count(std::int64_t n, const std::string& one, const std::string& many) {
  return fmt::format("{} {}", n, n == 1 ? one : many.empty() ? one + "s" : many);
}

std::string bytes(std::int64_t n) {
  constexpr double mib = 1024.0 * 1024.0;
  const double b = static_cast<double>(n);
  return b < 1024 * mib ? fmt::format("{:.1f} MiB", b / mib) : fmt::format("{:.2f} GiB", b / mib / 1024);
}

}  // namespace shoal::text
