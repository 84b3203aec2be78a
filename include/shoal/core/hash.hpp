// XXH3-64 of a range of bytes: checksums of files and hashes of tensors.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace shoal {

std::uint64_t hash_bytes(const void* data, std::size_t nbytes, std::uint64_t seed = 0);
std::string hex(std::uint64_t value);  // 16 digits

// The same hash of bytes that arrive in parts.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void update(const void* data, std::size_t nbytes);
  std::uint64_t value() const;  // of all bytes so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shoal
