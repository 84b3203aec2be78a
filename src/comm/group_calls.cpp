// Groups: what a thread issues in between is kept, and started together at the end.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/host_communicator.hpp"
#include "shoal/core/error.hpp"

namespace shoal::comm {

HostCommunicator::Batch* HostCommunicator::open_batch() {
  if (open_groups_.load(std::memory_order_acquire) == 0) return nullptr;
  std::lock_guard lock(groups_mutex_);
  const auto it = groups_.find(std::this_thread::get_id());
  return it == groups_.end() ? nullptr : &it->second;
}

void HostCommunicator::group_start() {
  std::lock_guard lock(groups_mutex_);
  if (groups_[std::this_thread::get_id()].depth++ == 0) ++open_groups_;
}

void HostCommunicator::group_end() {
  Batch* group = open_batch();
  if (!group) throw CommError(fmt::format("communicator {}: group_end without group_start", name()));
  if (--group->depth > 0) return;
  std::vector<Issued> issued = std::move(group->issued);
  {
    std::lock_guard lock(groups_mutex_);
    groups_.erase(std::this_thread::get_id());
    --open_groups_;
  }
  run_group(std::move(issued));
}

void HostCommunicator::group_cancel() noexcept {
  Batch* group = open_batch();
  if (!group || --group->depth > 0) return;
  const std::vector<Issued> issued = std::move(group->issued);
  {
    std::lock_guard lock(groups_mutex_);
    groups_.erase(std::this_thread::get_id());
    --open_groups_;
  }
  for (const Issued& i : issued)
    if (i.work) {
      i.work->hold(false);
      i.work->complete(std::make_exception_ptr(CommError("its group was cancelled")));
    }
}

// Messages are under way before collectives run. Where there are only messages, this thread moves those of the blocking
// forms itself; else they become asynchronous too, and are waited for at the end. After a failure all others fail at
// once: the communicator is broken.
void HostCommunicator::run_group(std::vector<Issued> issued) {
  const bool collectives =
      std::any_of(issued.begin(), issued.end(), [](const Issued& i) { return !i.op.message(); });
  std::vector<std::shared_ptr<Messages::Pending>> mine;
  std::vector<std::shared_ptr<HostWork>> waited;
  for (Issued& i : issued) {
    if (i.work) i.work->hold(false);
    if (!i.op.message()) continue;
    const bool blocking = !i.work;
    if (blocking && collectives) waited.push_back(i.work = new_work());
    auto pending = messages_.add(i.op, i.ready);
    i.op.in = i.op.out = Tensor();
    if (i.work)
      messages_.post(std::move(pending), i.work, may_use_threads());
    else
      mine.push_back(std::move(pending));
  }
  std::exception_ptr first;
  const auto attempt = [&](const auto& f) {
    try {
      f();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  };
  attempt([&] { messages_.run(std::move(mine), may_use_threads()); });
  for (Issued& i : issued) {
    if (i.op.message()) continue;
    if (i.work)
      post_collective(std::move(i));
    else
      attempt([&] { queue_.run([&] { collective(i.op); }); });
  }
  for (const auto& work : waited) attempt([&] { work->synchronize(); });
  if (first) std::rethrow_exception(first);
}

}  // namespace shoal::comm
