// Where the job's secret comes from.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "comm/store/fd.hpp"
#include "comm/store/wire.hpp"
#include "shoal/core/env.hpp"
#include "shoal/core/error.hpp"

namespace shoal {
namespace {

std::string read_token_file(const std::string& path) {
  const auto bad = [&](const std::string& why) {
    return ConfigError("SHOAL_TOKEN_FILE=" + path + ": " + why);
  };
  // Not waiting: a pipe is refused below.
  const comm::store::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) throw bad(std::strerror(errno));
  struct stat s {};
  if (::fstat(fd.get(), &s) != 0) throw bad(std::strerror(errno));
  if (!S_ISREG(s.st_mode)) throw bad("is no regular file");
  if (s.st_mode & 077)
    throw bad(
        fmt::format("its mode is {:04o}, so others may read or change it: chmod 600 it", s.st_mode & 07777));
  if (s.st_uid != ::geteuid() && s.st_uid != 0)
    throw bad(fmt::format("belongs to another user ({})", s.st_uid));
  char bytes[longest_token + 2];
  const ssize_t n = ::read(fd.get(), bytes, sizeof bytes);
  if (n < 0) throw bad(std::strerror(errno));
  std::string token(bytes, static_cast<std::size_t>(n));
  if (!token.empty() && token.back() == '\n') token.pop_back();
  if (token.empty()) throw bad("is empty");
  try {
    comm::store::token_field(token);
  } catch (const ConfigError& e) {
    throw bad(e.what());
  }
  return token;
}

}  // namespace

std::string store_token() {
  const auto token = env::token(), file = env::token_file();
  if (token && file) throw ConfigError("SHOAL_TOKEN and SHOAL_TOKEN_FILE are both set: unset one");
  if (file) return read_token_file(*file);
  if (!token) return {};
  try {
    comm::store::token_field(*token);
  } catch (const ConfigError& e) {
    throw ConfigError(std::string("SHOAL_TOKEN: ") + e.what());  // not the value
  }
  return *token;
}

std::string make_store_token() {
  unsigned char bytes[16];
  if (::getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes))
    throw CommError(fmt::format("getrandom: {}", std::strerror(errno)));
  std::string text;
  for (const unsigned char b : bytes) text += fmt::format("{:02x}", b);
  return text;
}

}  // namespace shoal
