// A communicator made from a part of another's ranks. Its first rank makes the control block and offers it to the others
// at a meeting of the parent; at the next one all have it.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "comm/backends/local/communicator.hpp"
#include "comm/backends/local/shared_allocator.hpp"
#include "shoal/core/error.hpp"

namespace shoal::comm::local {
namespace {

// Plain data, shown inline.
struct Offer {
  const std::shared_ptr<Block>* block;  // ranks are threads
  SegmentKey key;
};
static_assert(sizeof(Offer) <= Show::inline_bytes);

}  // namespace

// The control block of the ranks `members` of this communicator; none for a rank that stays out. Every rank calls it.
std::shared_ptr<Block> LocalCommunicator::make_child(const Operation& op, const std::string& child,
                                                     const std::vector<int>& members) {
  const Host& host = *group_->host;
  const Layout layout(static_cast<int>(members.size()), group_->block->layout.stage_bytes);
  std::shared_ptr<Block> block;
  std::exception_ptr error;
  const auto attempt = [&](const auto& body) {
    try {
      body();
    } catch (const std::exception& e) {
      group_->fail(Failure::Kind::comm,
                   fmt::format("communicator {}: rank {}: {}", name(), rank(), e.what()));
      error = std::current_exception();
    }
  };
  Offer offer{};
  const bool leads = !members.empty() && members[0] == rank();
  if (leads)
    attempt([&] {
      if (host.processes) {
        block = std::make_shared<Block>(layout, Block::make_segment(layout, child));
        offer.key = block->segment()->key(host.named);
      } else {
        block = std::make_shared<Block>(layout);
        offer.block = &block;
      }
    });
  std::memcpy(group_->show(operations, rank(), meetings_ + 1).data, &offer, sizeof offer);
  meet(op, true);
  if (!leads && !members.empty())
    attempt([&] {
      std::memcpy(&offer, group_->show(operations, members[0], meetings_).data, sizeof offer);
      block = host.processes ? std::make_shared<Block>(layout, Segment::open(offer.key)) : *offer.block;
    });
  group_->part(operations, ++meetings_, what(op));
  if (error) std::rethrow_exception(error);
  if (leads && block->segment()) block->segment()->drop_name();
  return block;
}

std::shared_ptr<Communicator> LocalCommunicator::split(int color, int key) {
  std::shared_ptr<Communicator> result;
  in_order("split", [&] {
    group_->check();
    Operation op;
    op.kind = Kind::split;
    op.first = color;
    op.last = key;
    run(op, nullptr, nullptr);
    std::vector<int> members;
    for (int r = 0; r < size(); ++r)
      if (color >= 0 && headers_[r].first == color) members.push_back(r);
    std::stable_sort(members.begin(), members.end(),
                     [&](int a, int b) { return headers_[a].last < headers_[b].last; });
    const std::string child = fmt::format("{}/{}", name(), color);
    auto block = make_child(op, child, members);
    if (color < 0) return;
    const auto place = std::find(members.begin(), members.end(), rank()) - members.begin();
    const auto group = std::make_shared<Group>(Group::About{child, backend(), group_->about.options},
                                               std::move(block), static_cast<int>(place), group_, members);
    result = std::make_shared<LocalCommunicator>(
        group, group_->host->processes ? make_allocator(group) : allocator_);
  });
  return result;
}

}  // namespace shoal::comm::local
