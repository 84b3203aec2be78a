// What goes over a connection of the Store.
//
//   client                                     server
//   token, 64 bytes, zeros after its end  ->
//                                        <-    8 bytes: accepted or refused (then it closes)
//   frame: hello                          ->
//                                        <-    frame: status ok, or refused and why
//   frame: a request                      ->
//                                        <-    frame: its reply          (one at a time)
//
// A frame is its length (4 bytes), then as many bytes: an operation or a status, then its fields. Numbers are
// little-endian; text is its length (4 bytes), then its bytes.
#pragma once
#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "shoal/comm/store.hpp"

namespace shoal::comm::store {

using Greeting = std::array<char, 8>;
inline constexpr Greeting accepted{'S', 'H', 'O', 'A', 'L', 'Y', 'E', 'S'};
inline constexpr Greeting refused{'S', 'H', 'O', 'A', 'L', 'N', 'O', 'T'};
inline constexpr std::uint32_t protocol_version = 1;

using TokenField = std::array<char, longest_token>;
// Throws ConfigError for a token that is too short or too long; empty becomes zeros.
TokenField token_field(const std::string& token);
// In a time that does not depend on where they differ.
bool equal_in_constant_time(const TokenField& a, const TokenField& b);

enum class Op : std::uint8_t { hello = 1, set, get, wait, add, compare_set, erase, gather, fail, goodbye };
enum class Status : std::uint8_t {
  ok = 1,
  timeout,  // what is missing: keys of get and wait, ranks of gather
  failed,   // a rank failed: its message
  refused,  // the request makes no sense: why
};

class MalformedFrame : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Writer {
 public:
  Writer() = default;
  explicit Writer(Op op) { u8(static_cast<std::uint8_t>(op)); }
  explicit Writer(Status status) { u8(static_cast<std::uint8_t>(status)); }
  Writer& u8(std::uint8_t v) { return number(v, 1); }
  Writer& u32(std::uint32_t v) { return number(v, 4); }
  Writer& i64(std::int64_t v) { return number(static_cast<std::uint64_t>(v), 8); }
  Writer& text(std::string_view s);
  std::string take() { return std::move(bytes_); }

 private:
  Writer& number(std::uint64_t v, int size);
  std::string bytes_;
};

// Every read is checked against what is left; throws MalformedFrame.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::int64_t i64() { return static_cast<std::int64_t>(number(8)); }
  std::string text();
  // A count of things that take at least `each` bytes, so that nothing is allocated for more than there are.
  std::uint32_t count(std::size_t each);
  void end() const;  // throws when bytes are left

 private:
  std::uint64_t number(int size);
  std::string_view rest_;
};

constexpr std::size_t frame_header = 4;
std::string frame(const std::string& payload);  // with its length before it
std::uint32_t frame_length(const char (&header)[frame_header]);

}  // namespace shoal::comm::store
