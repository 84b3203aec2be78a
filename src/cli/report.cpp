#include "cli/report.hpp"

#include "shoal/core/error.hpp"

namespace shoal::cli {

int report_usage(const std::string& text) { return report(ConfigError(text), nullptr); }

int report(const std::exception& e, Communicator* world) { return train::report_failure("shoal", e, world); }

}  // namespace shoal::cli
