#include "comm/backends/local/segment.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "shoal/core/error.hpp"

namespace shoal::comm::local {
namespace {

constexpr const char* folder = "/dev/shm";

[[noreturn]] void refuse(const std::string& what, const char* call, int error) {
  throw DeviceError(fmt::format("{}: {} failed: {}", what, call, std::strerror(error)));
}

std::string random_name() {
  std::uint64_t bits[2];
  if (::getrandom(bits, sizeof bits, 0) != sizeof bits) refuse("a name in /dev/shm", "getrandom", errno);
  return fmt::format("{}/shoal-{:016x}{:016x}", folder, bits[0], bits[1]);
}

int open_new(const std::string& what) {
  int fd = ::open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  const std::string name = random_name();  // a file system without O_TMPFILE
  fd = ::open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) refuse(what, "a new file in /dev/shm", errno);
  ::unlink(name.c_str());
  return fd;
}

std::string free_bytes(int fd) {
  struct statvfs s;
  if (::fstatvfs(fd, &s) != 0) return "an unknown number of";
  return fmt::format("{}", static_cast<std::uint64_t>(s.f_bavail) * s.f_frsize);
}

}  // namespace

Segment::Segment(int fd, std::int64_t bytes) : fd_(fd), bytes_(bytes) {
  void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) {
    const int error = errno;
    ::close(fd);
    refuse(fmt::format("shared memory of {} bytes", bytes), "mmap", error);
  }
  data_ = static_cast<std::byte*>(p);
}

Segment::~Segment() {
  ::munmap(data_, bytes_);
  drop_name();
  close();
}

std::shared_ptr<Segment> Segment::create(std::int64_t bytes, std::int64_t reserved, const std::string& what) {
  const int fd = open_new(what);
  if (::ftruncate(fd, bytes) != 0) {
    const int error = errno;
    ::close(fd);
    refuse(fmt::format("{}: {} bytes", what, bytes), "ftruncate", error);
  }
  std::shared_ptr<Segment> made(new Segment(fd, bytes));
  made->reserve(0, reserved, what);
  return made;
}

void Segment::reserve(std::int64_t offset, std::int64_t bytes, const std::string& what) {
  if (bytes == 0) return;
  int error;
  do error = ::posix_fallocate(fd_, offset, bytes);
  while (error == EINTR);
  if (error == ENOSPC || error == ENOMEM)
    throw DeviceError(
        fmt::format("{}: no space in /dev/shm: {} bytes are needed, {} are free. Make it larger, or set "
                    "SHOAL_SHARED_BUFFERS=0 (comm.shared_buffers = false), with which buffers stay private "
                    "and are transferred "
                    "in stages",
                    what, bytes, free_bytes(fd_)));
  if (error != 0) refuse(fmt::format("{}: {} bytes", what, bytes), "posix_fallocate", error);
}

SegmentKey Segment::key(bool named) {
  struct stat s;
  if (::fstat(fd_, &s) != 0) refuse("shared memory", "fstat", errno);
  SegmentKey k;
  k.process = ::getpid();
  k.fd = fd_;
  k.device = s.st_dev;
  k.inode = s.st_ino;
  k.bytes = bytes_;
  if (named) {
    name_ = random_name();
    const std::string self = fmt::format("/proc/self/fd/{}", fd_);
    if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      name_.clear();
      refuse("a name in /dev/shm", "linkat", errno);
    }
    std::strncpy(k.name, name_.c_str(), sizeof k.name - 1);
  }
  return k;
}

std::shared_ptr<Segment> Segment::open(const SegmentKey& key) {
  const std::string path =
      key.name[0] ? std::string(key.name) : fmt::format("/proc/{}/fd/{}", key.process, key.fd);
  const std::string what = fmt::format("shared memory of process {}", key.process);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | (key.name[0] ? O_NOFOLLOW : 0));
  if (fd < 0) refuse(what, path.c_str(), errno);
  struct stat s;
  if (::fstat(fd, &s) != 0 || s.st_dev != key.device || s.st_ino != key.inode || s.st_size != key.bytes) {
    ::close(fd);
    throw DeviceError(fmt::format("{}: {} is another file than the one that was made", what, path));
  }
  return std::shared_ptr<Segment>(new Segment(fd, key.bytes));
}

void Segment::drop_name() noexcept {
  if (!name_.empty()) ::unlink(name_.c_str());
  name_.clear();
}

void Segment::close() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

}  // namespace shoal::comm::local
