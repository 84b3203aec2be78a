// Runs a command of the shell and keeps what it said.
#pragma once
#include <sys/wait.h>

#include <cstdio>
#include <stdexcept>
#include <string>

namespace shoal::test {

struct Result {
  int code = -1;       // exit code, 128 + signal when killed
  std::string output;  // standard output and standard error
};

inline Result shell(const std::string& command) {
  std::FILE* pipe = ::popen(("( " + command + " ) 2>&1").c_str(), "r");
  if (!pipe) throw std::runtime_error("popen failed for " + command);
  Result result;
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    result.output.append(buffer, n);
  const int status = ::pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

inline int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace shoal::test
