// Log lines on standard error, with the rank where one is known. Level from SHOAL_LOG.
#pragma once
#include <string_view>

namespace shoal::log {

void set_rank(int rank);  // of this thread
void error(std::string_view text);
void warn(std::string_view text);
void warn_once(std::string_view text);  // once a process for one text
void info(std::string_view text);
void debug(std::string_view text);
bool debug_enabled();

}  // namespace shoal::log
