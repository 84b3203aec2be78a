#include "comm/backends/local/shared_allocator.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "shoal/core/error.hpp"

namespace shoal::comm::local {
namespace {

constexpr std::int64_t alignment = 256, page = 4096;
std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

// Plain data, shown at the meetings of an allocation.
struct Offer {
  SegmentKey key;
  std::int64_t number;
  char error[2048];  // empty: none
};
static_assert(sizeof(Offer) <= Show::inline_bytes);

class SharedAllocator final : public Allocator {
 public:
  explicit SharedAllocator(std::shared_ptr<Group> group) : group_(std::move(group)) {}

  Device device() const override { return {DeviceType::cpu, 0}; }
  void* allocate(std::int64_t nbytes) override;
  void deallocate(void* p, std::int64_t nbytes) noexcept override;
  MemoryStats stats() const override { return group_->host->memory.stats(); }
  void reset_peak() override { group_->host->memory.reset_peak(); }
  void release_cached() override;

 private:
  void meet(const Offer& offer, const Group::What& what);
  bool compare(std::int64_t size);
  void* take(std::int64_t size);
  void* make(std::int64_t size, const Group::What& what, std::string& error);

  const std::shared_ptr<Group> group_;
  std::mutex one_;  // one allocation at a time
  std::int64_t meetings_ = 0;
  std::mutex mutex_;
  std::map<std::int64_t, std::vector<void*>> free_;
};

// True when every rank has a free block of the size. Throws, on all ranks, when the sizes differ.
bool SharedAllocator::compare(std::int64_t size) {
  bool all = true, same = true;
  std::string text;
  for (int q = 0; q < group_->size; ++q) {
    const Show& s = group_->show(memory, q, meetings_);
    all = all && s.window > 0;
    same = same && s.header.count == size;
    text += fmt::format("{}rank {}: {}", q ? ", " : "", q, s.header.count);
  }
  if (!same) {
    group_->fail(Failure::Kind::comm,
                 fmt::format("communicator {}: ranks ask its allocator for different numbers of bytes: {}",
                             group_->about.name, text));
    group_->raise();
  }
  return all;
}

void SharedAllocator::meet(const Offer& offer, const Group::What& what) {
  std::memcpy(group_->show(memory, group_->rank, meetings_ + 1).data, &offer, sizeof offer);
  group_->meet(memory, ++meetings_, what);
}

void* SharedAllocator::take(std::int64_t size) {
  std::lock_guard lock(mutex_);
  auto& blocks = free_[size];
  void* p = blocks.back();
  blocks.pop_back();
  return p;
}

// A segment with a piece for each rank; null and the error, the same on all ranks, where it cannot be made.
void* SharedAllocator::make(std::int64_t size, const Group::What& what, std::string& error) {
  const std::int64_t piece = round_up(size, page);
  Offer offer{};
  std::shared_ptr<Segment> segment;
  const auto attempt = [&](const auto& body) {
    try {
      body();
    } catch (const std::exception& e) {
      std::strncpy(offer.error, e.what(), sizeof offer.error - 1);
    }
  };
  const auto first_error = [&] {
    for (int q = 0; q < group_->size; ++q) {
      Offer shown;
      std::memcpy(&shown, group_->show(memory, q, meetings_).data, sizeof shown);
      if (shown.error[0]) return std::string(shown.error);
    }
    return std::string();
  };
  if (group_->rank == 0)
    attempt([&] {
      const std::int64_t bytes = piece * group_->size;
      segment = Segment::create(bytes, bytes,
                                fmt::format("communicator {}: {} bytes for each of {} ranks",
                                            group_->about.name, size, group_->size));
      offer.key = segment->key(group_->host->named);
      offer.number = group_->next_segment();
    });
  meet(offer, what);
  if (error = first_error(); !error.empty()) return nullptr;
  if (group_->rank != 0)
    attempt([&] {
      std::memcpy(&offer, group_->show(memory, 0, meetings_).data, sizeof offer);
      segment = Segment::open(offer.key);
    });
  meet(offer, what);
  if (error = first_error(); !error.empty()) return nullptr;
  segment->drop_name();
  segment->close();
  std::byte* p = segment->data() + piece * group_->rank;
  group_->keep(offer.number, std::move(segment));
  group_->host->memory.reserve(size);
  return p;
}

void* SharedAllocator::allocate(std::int64_t nbytes) {
  if (nbytes < 0) throw DeviceError(fmt::format("allocation of {} bytes", nbytes));
  std::lock_guard one(one_);
  group_->check();
  const std::int64_t size = round_up(nbytes, alignment);
  const auto what = [&] { return fmt::format("allocation of {} bytes for each rank", nbytes); };
  Show& mine = group_->show(memory, group_->rank, meetings_ + 1);
  {
    std::lock_guard lock(mutex_);
    const auto it = free_.find(size);
    mine.window = it == free_.end() ? 0 : static_cast<std::int64_t>(it->second.size());
  }
  mine.header = Header();
  mine.header.count = size;
  group_->meet(memory, ++meetings_, what);
  const bool cached = compare(size);
  if (size == 0) return nullptr;
  void* p = nullptr;
  if (cached) {
    p = take(size);
  } else {
    std::string error;
    p = make(size, what, error);
    if (!p) {
      release_cached();  // on all ranks
      meet(Offer{}, what);
      p = make(size, what, error);
    }
    if (!p) throw DeviceError(error);
  }
  group_->host->memory.use(size);
  return p;
}

void SharedAllocator::deallocate(void* p, std::int64_t nbytes) noexcept {
  if (!p) return;
  const std::int64_t size = round_up(nbytes, alignment);
  group_->host->memory.use(-size);
  std::lock_guard lock(mutex_);
  free_[size].push_back(p);
}

// Gives this rank's memory back; the addresses stay taken until the communicator ends.
void SharedAllocator::release_cached() {
  std::lock_guard lock(mutex_);
  for (auto& [size, blocks] : free_)
    for (void* p : blocks) {
      ::madvise(p, round_up(size, page), MADV_REMOVE);
      group_->host->memory.reserve(-size);
    }
  free_.clear();
}

}  // namespace

std::shared_ptr<Allocator> make_allocator(std::shared_ptr<Group> group) {
  if (group->about.options.shared_buffers) return std::make_shared<SharedAllocator>(std::move(group));
  return make_caching_allocator({DeviceType::cpu, 0});
}

}  // namespace shoal::comm::local
