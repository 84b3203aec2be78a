// Files: read by mapping them, written so that they are whole or not there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace shoal {

// The class of error that the layer using a file throws: MappedFile(path, raise<DataError>).
using Raise = void (*)(const std::string& message);
template <class E>
[[noreturn]] void raise(const std::string& message) {
  throw E(message);
}

// A read-only mapping of a whole regular file; nothing is read until it is touched. Moved-from is empty. The
// file must not be shortened while it is mapped (writers here replace files, they never shorten them).
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(const std::string& path, Raise raise);  // names the path and the system's reason
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::string& path() const { return path_; }
  std::int64_t size() const { return static_cast<std::int64_t>(size_); }
  const std::byte* data() const { return data_; }  // null for an empty file
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Removes what processes that were killed left of files that they were writing to `path`: "<path>.tmp.<numbers>". Files
// that another process still writes stay.
void remove_stale_temporaries(const std::string& path);

// A new file under a temporary name beside `path` (stale ones are removed). commit() makes it durable (fsync of the file and of its
// folder) and gives it its name in one step, replacing what was there; without commit() it is removed.
class AtomicFile {
 public:
  AtomicFile(std::string path, Raise raise);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void append(const void* data, std::size_t nbytes);
  void write_at(std::int64_t offset, const void* data, std::size_t nbytes);  // over what was appended
  std::int64_t size() const { return size_; }
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;
  std::string path_, temporary_;
  Raise raise_;
  int fd_ = -1;
  std::int64_t size_ = 0;
};

}  // namespace shoal
