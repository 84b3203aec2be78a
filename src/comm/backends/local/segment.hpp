// Files in /dev/shm that have no name: nothing is left behind, however a rank ends. The other ranks open one through
// its maker's /proc/PID/fd. Where that is refused (ranks in different PID namespaces) it gets a name of 128 random bits,
// until all have opened it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

namespace shoal::comm::local {

// What another process needs to open a segment. Plain data.
struct SegmentKey {
  std::int32_t process = 0, fd = -1;
  std::uint64_t device = 0, inode = 0;
  std::int64_t bytes = 0;
  char name[64] = {};  // empty: none
};

class Segment {
 public:
  // A new one, mode 0600. There is memory behind its first `reserved` bytes; throws DeviceError naming `what` and the
  // size where there is none.
  static std::shared_ptr<Segment> create(std::int64_t bytes, std::int64_t reserved, const std::string& what);
  // Throws DeviceError where it cannot be opened or is not the one that was made.
  static std::shared_ptr<Segment> open(const SegmentKey& key);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  // Puts memory behind these bytes; throws DeviceError naming `what` and the size.
  void reserve(std::int64_t offset, std::int64_t bytes, const std::string& what);
  // named: gives it a name; no more than its maker may.
  SegmentKey key(bool named);
  void drop_name() noexcept;
  // No other will open it and nothing more will be reserved.
  void close() noexcept;

 private:
  Segment(int fd, std::int64_t bytes);
  int fd_ = -1;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
  std::string name_;
};

}  // namespace shoal::comm::local
