#include "shoal/core/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "shoal/core/error.hpp"

namespace shoal {

MappedFile::MappedFile(const std::string& path, Raise raise) : path_(path) {
  const auto fail = [&](const char* what) {
    raise(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not be waited for
  if (fd < 0) fail("cannot be opened");
  struct Close {
    int fd;
    ~Close() { ::close(fd); }
  } close{fd};
  struct stat info {};
  if (::fstat(fd, &info) != 0) fail("cannot be examined");
  if (!S_ISREG(info.st_mode))
    raise(fmt::format("{}: {}, expected a regular file", path,
                      S_ISDIR(info.st_mode) ? "is a directory" : "is a device, pipe or socket"));
  size_ = static_cast<std::size_t>(info.st_size);
  if (size_ == 0) return;  // an empty range cannot be mapped
  void* p = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) fail("cannot be mapped");
  data_ = static_cast<const std::byte*>(p);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void remove_stale_temporaries(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(path).parent_path();
  const std::string prefix = fs::path(path).filename().string() + ".tmp.";
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator at(folder.empty() ? "." : folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(prefix) && name.find_first_not_of("0123456789.", prefix.size()) == std::string::npos)
      found.push_back(at->path());
  }
  for (const fs::path& file : found) {
    const int fd = ::open(file.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0) continue;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) ::unlink(file.c_str());  // its writer lives no more
    ::close(fd);
  }
}

AtomicFile::AtomicFile(std::string path, Raise raise) : path_(std::move(path)), raise_(raise) {
  // A rename would put a file in the place of a folder's, device's or pipe's name.
  struct stat info {};
  if (::stat(path_.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    if (!S_ISDIR(info.st_mode))
      raise_(
          fmt::format("{}: cannot be written: is a device, pipe or socket, expected a regular file", path_));
    errno = EISDIR;
    fail("cannot be written");
  }
  remove_stale_temporaries(path_);
  static std::atomic<unsigned> counter{0};
  for (int attempt = 0; attempt < 1000; ++attempt) {  // process ids repeat, in containers and on other hosts
    temporary_ = fmt::format("{}.tmp.{}.{}", path_, ::getpid(), counter++);
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno == EEXIST) continue;
    if (fd_ < 0) break;
    // The lock says that the writer lives; it ends with the process. Another may have taken the file for a stale one
    // before this lock.
    const bool locked = ::flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    if (locked && ::fstat(fd_, &info) == 0 && info.st_nlink > 0) return;
    ::close(std::exchange(fd_, -1));
  }
  fail("cannot be written");
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::append(const void* data, std::size_t nbytes) {
  const std::int64_t at = size_;
  size_ += static_cast<std::int64_t>(nbytes);
  write_at(at, data, nbytes);
}

void AtomicFile::write_at(std::int64_t offset, const void* data, std::size_t nbytes) {
  const char* p = static_cast<const char*>(data);
  while (nbytes > 0) {
    const ssize_t n = ::pwrite(fd_, p, nbytes, offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot be written");
    p += n;
    offset += n;
    nbytes -= static_cast<std::size_t>(n);
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail("cannot be made durable");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be renamed to its final name");
  ::close(std::exchange(fd_, -1));
  // The rename itself is durable only once the folder is; some file systems refuse to sync a folder.
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  const int dir = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return;
  const bool synced = ::fsync(dir) == 0 || errno == EINVAL || errno == EROFS;
  const int reason = errno;
  ::close(dir);
  errno = reason;
  if (!synced) fail("its folder cannot be made durable");
}

void AtomicFile::fail(const char* what) const {
  const std::string message = fmt::format("{}: {}: {}", path_, what, std::strerror(errno));
  raise_(message);
  throw Error(message);  // for a `raise` that returns
}

}  // namespace shoal
