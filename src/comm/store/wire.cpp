#include "comm/store/wire.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "shoal/core/error.hpp"

namespace shoal::comm::store {

TokenField token_field(const std::string& token) {
  TokenField field{};
  if (token.empty()) return field;
  if (token.size() < shortest_token || token.size() > longest_token)
    throw ConfigError(fmt::format("a token of {} bytes: expected {} to {} (openssl rand -hex 16 makes one)",
                                  token.size(), shortest_token, longest_token));
  if (token.find('\0') != std::string::npos) throw ConfigError("a token with a zero byte in it");
  std::copy(token.begin(), token.end(), field.begin());
  return field;
}

bool equal_in_constant_time(const TokenField& a, const TokenField& b) {
  volatile unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference = static_cast<unsigned char>(
        difference | (static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i])));
  return difference == 0;
}

Writer& Writer::number(std::uint64_t v, int size) {
  for (int i = 0; i < size; ++i) bytes_.push_back(static_cast<char>(v >> (8 * i)));
  return *this;
}

Writer& Writer::text(std::string_view s) {
  if (s.size() > std::numeric_limits<std::uint32_t>::max())
    throw ConfigError(fmt::format("a text of {} bytes in the store", s.size()));
  u32(static_cast<std::uint32_t>(s.size()));
  bytes_.append(s);
  return *this;
}

std::uint64_t Reader::number(int size) {
  if (rest_.size() < static_cast<std::size_t>(size))
    throw MalformedFrame(
        fmt::format("it ends {} bytes too early", static_cast<std::size_t>(size) - rest_.size()));
  std::uint64_t v = 0;
  for (int i = 0; i < size; ++i)
    v |= static_cast<std::uint64_t>(static_cast<unsigned char>(rest_[static_cast<std::size_t>(i)]))
         << (8 * i);
  rest_.remove_prefix(static_cast<std::size_t>(size));
  return v;
}

std::string Reader::text() {
  const std::uint32_t size = u32();
  if (size > rest_.size())
    throw MalformedFrame(fmt::format("a text of {} bytes in {} that are left", size, rest_.size()));
  std::string s(rest_.substr(0, size));
  rest_.remove_prefix(size);
  return s;
}

std::uint32_t Reader::count(std::size_t each) {
  const std::uint32_t n = u32();
  if (n > rest_.size() / each)
    throw MalformedFrame(fmt::format("{} entries in {} bytes that are left", n, rest_.size()));
  return n;
}

void Reader::end() const {
  if (!rest_.empty()) throw MalformedFrame(fmt::format("{} bytes after its end", rest_.size()));
}

std::string frame(const std::string& payload) {
  std::string bytes = Writer().u32(static_cast<std::uint32_t>(payload.size())).take();
  return bytes += payload;
}

std::uint32_t frame_length(const char (&header)[frame_header]) {
  return Reader(std::string_view(header, frame_header)).u32();
}

}  // namespace shoal::comm::store
