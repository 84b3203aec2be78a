// What the communicators of one rank have in common: whether ranks are threads or processes, how the other ranks'
// ends are noticed, and the shared segments that this process has mapped.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "comm/backends/local/control.hpp"
#include "comm/backends/local/segment.hpp"
#include "comm/failure.hpp"
#include "comm/tuning.hpp"
#include "shoal/core/allocator.hpp"

namespace shoal::comm::local {

// What else may end a wait: the launcher's runtime, over which a rank tells the others of a failure outside of these
// communicators.
class Outside {
 public:
  struct Told {
    Failure::Kind kind;
    std::string message;
  };
  virtual ~Outside() = default;
  virtual std::optional<Told> poll() = 0;
  virtual bool left(int rank) = 0;  // a rank of the root group has ended its work
  // A communicator has failed here; `remote`: another rank saw it first.
  virtual void failed(Failure::Kind kind, const std::string& message, bool remote) noexcept = 0;
};

// Tells when another process has ended, though nobody has waited for it yet.
class Processes {
 public:
  Processes() = default;
  explicit Processes(const std::vector<int>& ids);  // of the root group's ranks
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  bool ended(int rank) const;
  int id(int rank) const { return ids_.empty() ? 0 : ids_[rank]; }

 private:
  std::vector<int> ids_, handles_;
  std::vector<std::uint64_t> started_;
};

// The segments that this process has mapped, by number and by address.
class SegmentTable {
 public:
  void add(std::int64_t number, std::shared_ptr<Segment> segment, const Control* home);
  void remove(std::int64_t number);
  // The segment that holds [p, p + bytes) and the control block of the communicator it was allocated from; unseen
  // where there is none.
  struct Found {
    BufferRef ref{BufferRef::unseen, 0};
    const Control* home = nullptr;
  };
  Found find(const void* p, std::int64_t bytes) const;
  std::byte* at(const BufferRef& ref) const;

 private:
  struct Entry {
    std::shared_ptr<Segment> segment;
    const Control* home;
    std::int64_t number;
  };
  mutable std::shared_mutex mutex_;
  std::map<const std::byte*, Entry> by_address_;
  std::unordered_map<std::int64_t, std::byte*> by_number_;
};

// What the allocators of one rank have given out, together.
class MemoryCount {
 public:
  MemoryStats stats() const;
  void reset_peak();
  void use(std::int64_t bytes);  // negative: given back
  void reserve(std::int64_t bytes);

 private:
  mutable std::mutex mutex_;
  MemoryStats stats_;
};

struct Host {
  bool processes = false;
  bool crowded = false;      // more ranks on this host than cores
  bool named = false;        // segments need names to be opened
  bool single_copy = false;  // every rank can read every other's memory (single_copy.hpp)
  Tuning tuning;
  std::unique_ptr<Processes> ranks;
  std::unique_ptr<Outside> outside;
  SegmentTable segments;
  MemoryCount memory;
};

// Of ranks that are threads of this process.
std::shared_ptr<Host> make_host(int ranks);

}  // namespace shoal::comm::local
