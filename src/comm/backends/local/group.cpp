#include "comm/backends/local/group.hpp"

#include <fmt/format.h>

#include "comm/wait.hpp"
#include "shoal/core/error.hpp"
#include "shoal/core/threads.hpp"

namespace shoal::comm::local {

Group::Group(std::string group_name, std::string backend_name, int ranks, const CommOptions& group_options)
    : name(std::move(group_name)),
      backend(std::move(backend_name)),
      size(ranks),
      options(group_options),
      slots(ranks),
      mailbox(ranks),
      crowded_(ranks > hardware_threads()) {}

std::vector<int> Group::missing(std::int64_t k) const {
  std::vector<int> ranks;
  for (int r = 0; r < size; ++r)
    if (slots[r].arrived.load(std::memory_order_acquire) < k) ranks.push_back(r);
  return ranks;
}

int Group::departed(const std::vector<int>& ranks) const {
  for (int r : ranks)
    if (parent_ ? parent_->departed({in_parent_[r]}) >= 0 : slots[r].gone.load(std::memory_order_acquire))
      return r;
  return -1;
}

void Group::begin(int rank, std::int64_t k, const Operation& op) {
  slots[rank].arrived.store(k, std::memory_order_release);
  const auto number = static_cast<std::uint64_t>(k);
  int next = 0;  // ranks below it have come
  for (Backoff backoff(crowded_);; backoff.pause()) {
    const std::uint64_t state = committed_.load(std::memory_order_acquire);
    if ((state & ~broken) >= number) return;
    if (state & broken) failure.raise();
    while (next < size && slots[next].arrived.load(std::memory_order_acquire) >= k) ++next;
    if (next == size) {
      std::uint64_t expected = number - 1;
      if (committed_.compare_exchange_strong(expected, number, std::memory_order_acq_rel)) return;
      continue;
    }
    if (!backoff.due()) continue;
    if (interrupted())
      give_up(k, op, fmt::format("rank {} was {}", rank, interrupted_text), Failure::Kind::comm);
    if (const int gone = departed(missing(k)); gone >= 0)
      give_up(k, op, fmt::format("rank {} has returned from its work", gone), Failure::Kind::comm);
    if (backoff.elapsed() > options.timeout)
      give_up(k, op,
              fmt::format("{} had not arrived after {:g} s", rank_list(missing(k)), options.timeout.count()),
              Failure::Kind::timeout);
  }
}

void Group::give_up(std::int64_t k, const Operation& op, const std::string& why, Failure::Kind kind) {
  fail(kind, fmt::format("communicator {}: {} (operation {}): {}", name, describe(op), k - 1, why));
  // Begun in the meantime: then it takes place, and the others are in this rank's buffers.
  if ((committed_.load(std::memory_order_acquire) & ~broken) < static_cast<std::uint64_t>(k)) failure.raise();
}

void Group::end(int rank, std::int64_t k) noexcept {
  slots[rank].left.store(k, std::memory_order_release);
  int next = 0;
  for (Backoff backoff(crowded_);; backoff.pause()) {
    while (next < size && slots[next].left.load(std::memory_order_acquire) >= k) ++next;
    if (next == size) return;
  }
}

void Group::fail(Failure::Kind kind, const std::string& message) {
  failure.set(kind, message);
  committed_.fetch_or(broken, std::memory_order_acq_rel);
  std::vector<std::shared_ptr<Group>> children;
  {
    std::lock_guard lock(mutex_);
    for (const auto& c : children_)
      if (auto group = c.lock()) children.push_back(std::move(group));
  }
  for (const auto& c : children) c->fail(kind, message);
}

void Group::fail_unwinding(int rank) {
  Group* root = this;
  int world_rank = rank;
  for (; root->parent_; root = root->parent_.get()) world_rank = root->in_parent_[world_rank];
  int none = -1;
  root->unwinding_.compare_exchange_strong(none, world_rank, std::memory_order_acq_rel);
  fail(Failure::Kind::comm,
       fmt::format("communicator {}: rank {} failed while it had operations under way", name, rank));
}

std::shared_ptr<Group> Group::child(std::int64_t k, int color, const std::vector<int>& members) {
  std::lock_guard lock(mutex_);
  Pending& pending = splitting_[{k, color}];
  if (!pending.group) {
    pending.group = std::make_shared<Group>(fmt::format("{}/{}", name, color), backend,
                                            static_cast<int>(members.size()), options);
    pending.group->parent_ = shared_from_this();
    pending.group->in_parent_ = members;
    std::erase_if(children_, [](const auto& c) { return c.expired(); });
    children_.push_back(pending.group);
    if (failure.failed()) pending.group->fail(failure.kind(), failure.message());
  }
  auto group = pending.group;
  if (++pending.taken == members.size()) splitting_.erase({k, color});
  return group;
}

}  // namespace shoal::comm::local
