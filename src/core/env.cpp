#include "shoal/core/env.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "shoal/core/error.hpp"

namespace shoal::env {

std::optional<std::string> get(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return std::string(value);
}

Check check() {
  const std::string value = get("SHOAL_CHECK").value_or("0");
  if (value == "0") return Check::off;
  if (value == "1") return Check::on;
  if (value == "bits") return Check::bits;
  throw ConfigError(fmt::format("SHOAL_CHECK={}: expected 0, 1 or bits", value));
}

std::optional<double> timeout() {
  const auto value = get("SHOAL_TIMEOUT");
  if (!value) return std::nullopt;
  char* end = nullptr;
  const double seconds = std::strtod(value->c_str(), &end);
  if (*end != '\0' || !std::isfinite(seconds) || seconds <= 0)
    throw ConfigError(fmt::format("SHOAL_TIMEOUT={}: expected a number of seconds above 0", *value));
  return seconds;
}

std::optional<std::string> cpu_isa() { return get("SHOAL_CPU_ISA"); }

std::string log_level() {
  const std::string value = get("SHOAL_LOG").value_or("warn");
  if (value != "error" && value != "warn" && value != "info" && value != "debug")
    throw ConfigError(fmt::format("SHOAL_LOG={}: expected error, warn, info or debug", value));
  return value;
}

std::optional<std::string> comm_backend() { return get("SHOAL_COMM"); }
std::optional<std::string> comm_tuning() { return get("SHOAL_COMM_TUNING"); }

std::optional<bool> shared_buffers() {
  const auto value = get("SHOAL_SHARED_BUFFERS");
  if (!value) return std::nullopt;
  if (*value != "0" && *value != "1")
    throw ConfigError(fmt::format("SHOAL_SHARED_BUFFERS={}: expected 0 or 1", *value));
  return *value == "1";
}

std::optional<std::string> token() { return get("SHOAL_TOKEN"); }

std::optional<std::string> token_file() { return get("SHOAL_TOKEN_FILE"); }

std::optional<std::string> store() { return get("SHOAL_STORE"); }

}  // namespace shoal::env
