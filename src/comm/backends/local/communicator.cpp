#include "comm/backends/local/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <tuple>

#include "shoal/core/error.hpp"
#include "shoal/core/log.hpp"

namespace shoal::comm::local {

LocalCommunicator::LocalCommunicator(std::shared_ptr<Group> group, int rank,
                                     std::shared_ptr<Allocator> allocator)
    : HostCommunicator(rank, group->size), group_(std::move(group)), allocator_(std::move(allocator)) {
  if (log::debug_enabled())
    log::debug(fmt::format("communicator {} ({}): rank {} of {}", name(), backend(), rank, size()));
}

LocalCommunicator::~LocalCommunicator() {
  if (std::uncaught_exceptions() > 0 && busy()) group_->fail_unwinding(rank());
  finish();
}

std::vector<Header> LocalCommunicator::headers() const {
  std::vector<Header> all;
  all.reserve(size());
  for (const Slot& s : group_->slots) all.push_back(s.header);
  return all;
}

// Headers are compared whether or not checks are asked for: sizes must agree before anybody's memory is
// touched, and here it costs a few loads.
template <class Share>
void LocalCommunicator::together(const Operation& op, const void* in, void* out, const Share& share) {
  const std::int64_t k = ++operations_;
  Slot& slot = group_->slots[rank()];
  slot.header = header_of(op, k - 1);
  slot.in = in;
  slot.out = out;
  slot.nodes.clear();
  for (const Tensor& t : op.nodes) slot.nodes.push_back(t.data());
  slot.counts = op.counts.data();
  slot.recv_counts = op.recv_counts.data();
  group_->begin(rank(), k, op);
  struct End {
    Group& group;
    int rank;
    std::int64_t k;
    ~End() { group.end(rank, k); }
  } end{*group_, rank(), k};
  try {
    const std::vector<Header> all = headers();
    require_same(name(), all);
    if (op.is(Kind::all_to_all) && op.v())
      require_matching(
          name(), slot.header, size(), [&](int q, int r) { return sent(q, r); },
          [&](int q, int r) { return expected(q, r); });
    share(all);
  } catch (const std::exception& e) {
    group_->fail(Failure::Kind::comm, e.what());
    throw;
  }
}

void LocalCommunicator::collective(const Operation& op) {
  group_->failure.check();
  Buffers buffers(op, rank());
  together(op, buffers.in, buffers.out, [&](const std::vector<Header>& all) { share(op, all); });
  buffers.finish();
}

std::string LocalCommunicator::describe_algorithm(std::string_view operation, std::int64_t, bool) const {
  kind_of(operation);
  return fmt::format("{} direct", backend());
}

std::shared_ptr<Communicator> LocalCommunicator::split(int color, int key) {
  std::shared_ptr<Communicator> result;
  in_order("split", [&] {
    group_->failure.check();
    Operation op;
    op.kind = Kind::split;
    op.first = color;
    op.last = key;
    together(op, nullptr, nullptr, [&](const std::vector<Header>& all) {
      if (color < 0) return;
      std::vector<int> members;
      for (int r = 0; r < size(); ++r)
        if (all[r].first == color) members.push_back(r);
      std::stable_sort(members.begin(), members.end(),
                       [&](int a, int b) { return all[a].last < all[b].last; });
      const auto place = std::find(members.begin(), members.end(), rank()) - members.begin();
      result = std::make_shared<LocalCommunicator>(group_->child(operations_, color, members),
                                                   static_cast<int>(place), allocator_);
    });
  });
  return result;
}

void LocalCommunicator::abort(const std::string& reason) noexcept {
  try {
    group_->fail(Failure::Kind::comm,
                 fmt::format("communicator {}: aborted by rank {}: {}", name(), rank(), reason));
  } catch (...) {  // no memory for the message: nothing more can be said
  }
}

}  // namespace shoal::comm::local
