#include "shoal/core/log.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "shoal/core/env.hpp"

namespace shoal::log {
namespace {

thread_local int thread_rank = -1;

spdlog::logger& logger() {
  // Never destroyed: threads may log while the process ends.
  static spdlog::logger* const instance = [] {
    auto* l = new spdlog::logger("shoal", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    l->set_pattern("[shoal %H:%M:%S.%e %l] %v");
    l->set_level(spdlog::level::from_str(env::log_level()));
    return l;
  }();
  return *instance;
}

void write(spdlog::level::level_enum level, std::string_view text) {
  if (thread_rank >= 0)
    logger().log(level, fmt::format("rank {}: {}", thread_rank, text));
  else
    logger().log(level, text);
}

}  // namespace

void set_rank(int rank) { thread_rank = rank; }
void error(std::string_view text) { write(spdlog::level::err, text); }
void warn(std::string_view text) { write(spdlog::level::warn, text); }
void info(std::string_view text) { write(spdlog::level::info, text); }
void debug(std::string_view text) { write(spdlog::level::debug, text); }
bool debug_enabled() { return logger().should_log(spdlog::level::debug); }

void warn_once(std::string_view text) {
  static std::mutex mutex;
  static std::set<std::string>* const seen = new std::set<std::string>;
  {
    std::lock_guard lock(mutex);
    if (!seen->emplace(text).second) return;
  }
  warn(text);
}

}  // namespace shoal::log
