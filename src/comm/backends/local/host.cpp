#include "comm/backends/local/host.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "shoal/core/threads.hpp"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace shoal::comm::local {
namespace {

// State and start time of a process, from /proc/ID/stat: "ID (name) S ... start ...", start being the 20th after the
// name. False where there is no such process.
bool read_stat(int id, char& state, std::uint64_t& started) {
  char path[64], text[1024];
  std::snprintf(path, sizeof path, "/proc/%d/stat", id);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t n = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (n <= 0) return false;
  text[n] = '\0';
  const char* p = std::strrchr(text, ')');
  unsigned long long start = 0;
  if (!p ||
      std::sscanf(p + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
                  &state, &start) != 2)
    return false;
  started = start;
  return true;
}

}  // namespace

Processes::Processes(const std::vector<int>& ids)
    : ids_(ids), handles_(ids.size(), -1), started_(ids.size(), 0) {
  for (std::size_t r = 0; r < ids.size(); ++r) {
    handles_[r] = static_cast<int>(::syscall(SYS_pidfd_open, ids[r], 0));
    char state;
    if (handles_[r] < 0) read_stat(ids[r], state, started_[r]);
  }
}

Processes::~Processes() {
  for (int fd : handles_)
    if (fd >= 0) ::close(fd);
}

bool Processes::ended(int rank) const {
  if (ids_.empty()) return false;
  if (handles_[rank] >= 0) {
    pollfd p{handles_[rank], POLLIN, 0};
    return ::poll(&p, 1, 0) == 1;
  }
  if (started_[rank] == 0) return false;  // not to be seen from here: the deadline will tell
  char state = 0;
  std::uint64_t started = 0;
  return !read_stat(ids_[rank], state, started) || started != started_[rank] || state == 'Z' || state == 'X';
}

void SegmentTable::add(std::int64_t number, std::shared_ptr<Segment> segment, const Control* home) {
  std::unique_lock lock(mutex_);
  const std::byte* data = segment->data();
  by_number_[number] = segment->data();
  by_address_[data] = {std::move(segment), home, number};
}

void SegmentTable::remove(std::int64_t number) {
  std::unique_lock lock(mutex_);
  const auto it = by_number_.find(number);
  if (it == by_number_.end()) return;
  by_address_.erase(it->second);
  by_number_.erase(it);
}

SegmentTable::Found SegmentTable::find(const void* p, std::int64_t bytes) const {
  std::shared_lock lock(mutex_);
  const auto* at = static_cast<const std::byte*>(p);
  auto it = by_address_.upper_bound(at);
  if (it == by_address_.begin()) return {};
  const Entry& e = std::prev(it)->second;
  const std::int64_t offset = at - e.segment->data();
  if (offset + bytes > e.segment->bytes()) return {};
  return {{e.number, offset}, e.home};
}

std::byte* SegmentTable::at(const BufferRef& ref) const {
  std::shared_lock lock(mutex_);
  const auto it = by_number_.find(ref.segment);
  return it == by_number_.end() ? nullptr : it->second + ref.offset;
}

MemoryStats MemoryCount::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void MemoryCount::reset_peak() {
  std::lock_guard lock(mutex_);
  stats_.peak = stats_.in_use;
}

void MemoryCount::use(std::int64_t bytes) {
  std::lock_guard lock(mutex_);
  stats_.in_use += bytes;
  stats_.peak = std::max(stats_.peak, stats_.in_use);
  if (bytes > 0) ++stats_.allocations;
}

void MemoryCount::reserve(std::int64_t bytes) {
  std::lock_guard lock(mutex_);
  stats_.reserved += bytes;
}

std::shared_ptr<Host> make_host(int ranks) {
  auto host = std::make_shared<Host>();
  host->crowded = ranks > hardware_threads();
  host->tuning = read_tuning();
  return host;
}

}  // namespace shoal::comm::local
