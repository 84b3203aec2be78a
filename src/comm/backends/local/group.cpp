#include "comm/backends/local/group.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "comm/wait.hpp"
#include "shoal/core/error.hpp"

namespace shoal::comm::local {

using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_release;

Group::Group(About a, std::shared_ptr<Block> b, int r, std::shared_ptr<Host> h)
    : about(std::move(a)),
      rank(r),
      size(b->layout.size),
      block(std::move(b)),
      host(std::move(h)),
      process_(::getpid()) {}

Group::Group(About a, std::shared_ptr<Block> b, int r, std::shared_ptr<Group> parent,
             std::vector<int> members)
    : about(std::move(a)),
      rank(r),
      size(b->layout.size),
      block(std::move(b)),
      host(parent->host),
      parent_(std::move(parent)),
      members_(std::move(members)),
      process_(::getpid()) {}

Group::~Group() {
  for (std::int64_t number : kept_) host->segments.remove(number);
  if (host->processes && !parent_ && process_ == ::getpid()) depart();  // not in a child of this process
}

std::int64_t Group::next_segment() const {
  return parent_ ? parent_->next_segment() : control()->segments.fetch_add(1, std::memory_order_relaxed) + 1;
}

void Group::keep(std::int64_t number, std::shared_ptr<Segment> segment) {
  host->segments.add(number, std::move(segment), control());
  kept_.push_back(number);
}

bool Group::within(const Control* group) const {
  return group == control() || (parent_ && parent_->within(group));
}

std::vector<int> Group::missing(Channel c, std::int64_t m) const {
  std::vector<int> ranks;
  for (int r = 0; r < size; ++r)
    if (show(c, r, m).arrived.load(memory_order_acquire) < m) ranks.push_back(r);
  return ranks;
}

std::string Group::departed(int r, double seconds) const {
  if (parent_) return parent_->departed(members_[r], seconds);
  if (host->ranks && host->ranks->ended(r)) return fmt::format("(process {}) has ended", host->ranks->id(r));
  // One that goes because it failed says so outside first.
  if (host->outside && seconds < 2) return "";
  if (slot(r).gone.load(memory_order_acquire)) return "has returned from its work";
  if (host->outside && host->outside->left(r)) return "has ended its work";
  return "";
}

void Group::look(const std::vector<int>& ranks, const Late& late, double seconds, const What& what,
                 const char* waited) const {
  check();
  if (interrupted()) {
    fail(Failure::Kind::comm,
         fmt::format("communicator {}: {}: rank {} was {}", about.name, what(), rank, interrupted_text));
    raise();
  }
  if (host->outside)
    if (const auto told = host->outside->poll()) {
      tell(told->kind, told->message, -1);
      raise();
    }
  for (int r : ranks)
    if (const std::string why = departed(r, seconds);
        !why.empty() && late(r)) {  // it may have come before it went
      fail(Failure::Kind::comm, fmt::format("communicator {}: {}: rank {} {}", about.name, what(), r, why));
      raise();
    }
  if (seconds <= about.options.timeout.count()) return;
  std::string where;
  for (int r : ranks) where += (where.empty() ? "" : "; ") + whereabouts(r);
  fail(Failure::Kind::timeout, fmt::format("communicator {}: {}: {} {} after {:g} s ({})", about.name, what(),
                                           rank_list(ranks), waited, about.options.timeout.count(), where));
  raise();
}

// True when meeting m takes place, also when the group has failed since.
bool Group::decided(std::int64_t m) const {
  const auto number = static_cast<std::uint64_t>(m);
  std::uint64_t state = control()->committed.load(memory_order_acquire);
  while ((state & ~Control::broken) < number) {
    if (state & Control::broken) return false;
    if (control()->committed.compare_exchange_weak(state, number, memory_order_acq_rel)) return true;
  }
  return true;
}

void Group::meet(Channel c, std::int64_t m, const What& what, bool decide, const char* waited) {
  show(c, rank, m).arrived.store(m, memory_order_release);
  int next = 0;  // ranks below it have come
  for (int spins = host->crowded ? 20 : 60;; --spins) {
    while (next < size && show(c, next, m).arrived.load(memory_order_acquire) >= m) ++next;
    if (next == size) break;
    if (spins == 0) {
      wait(c, m, next, what, decide, waited);
      break;
    }
    relax();
  }
  if (decide && !decided(m)) raise();
}

void Group::wait(Channel c, std::int64_t m, int next, const What& what, bool decide, const char* waited) {
  for (Backoff backoff(true);; backoff.pause()) {
    while (next < size && show(c, next, m).arrived.load(memory_order_acquire) >= m) ++next;
    if (next == size) return;
    if (!backoff.due()) continue;
    try {
      look(
          missing(c, m), [&](int r) { return show(c, r, m).arrived.load(memory_order_acquire) < m; },
          std::chrono::duration<double>(backoff.elapsed()).count(), what, waited);
    } catch (...) {
      if (decide && (control()->committed.load(memory_order_acquire) & ~Control::broken) >=
                        static_cast<std::uint64_t>(m))
        return;
      throw;
    }
  }
}

void Group::part(Channel c, std::int64_t m, const What& what) {
  show(c, rank, m).arrived.store(m, memory_order_release);
  int next = 0;
  for (Backoff backoff(host->crowded);; backoff.pause()) {
    while (next < size && show(c, next, m).arrived.load(memory_order_acquire) >= m) ++next;
    if (next == size) return;
    if (!host->processes || !backoff.due()) continue;
    // Only an end of a process, or the deadline, ends this wait: others may still write to this rank's memory.
    const std::vector<int> late = missing(c, m);
    const double seconds = std::chrono::duration<double>(backoff.elapsed()).count();
    const auto is_late = [&](int r) { return show(c, r, m).arrived.load(memory_order_acquire) < m; };
    bool gone = false;
    for (int r : late) gone = gone || (!departed(r, seconds).empty() && is_late(r));
    if (gone || seconds > about.options.timeout.count())
      look(late, is_late, seconds, what, "had not finished");
  }
}

bool Group::failed() const {
  if (control()->failure.state.load(memory_order_acquire) != FailureRecord::none) return true;
  return parent_ && parent_->failed();
}

}  // namespace shoal::comm::local
