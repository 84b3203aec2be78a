#include "comm/backends/local/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>

#include "shoal/core/error.hpp"
#include "shoal/core/log.hpp"

namespace shoal::comm::local {

LocalCommunicator::LocalCommunicator(std::shared_ptr<Group> group, std::shared_ptr<Allocator> allocator)
    : HostCommunicator(group->rank, group->size),
      group_(std::move(group)),
      allocator_(std::move(allocator)),
      talk_(*group_),
      headers_(size()),
      views_(size()) {
  if (log::debug_enabled())
    log::debug(fmt::format("communicator {} ({}): rank {} of {}", name(), backend(), rank(), size()));
}

LocalCommunicator::~LocalCommunicator() {
  if (std::uncaught_exceptions() > 0 && busy()) group_->fail_unwinding();
  finish();
}

Group::What LocalCommunicator::what(const Operation& op) const {
  return [this, &op] { return fmt::format("{} (operation {})", describe(op), operations_ - 1); };
}

void LocalCommunicator::meet(const Operation& op, bool decide) {
  group_->meet(operations, ++meetings_, what(op), decide);
}

void LocalCommunicator::meet_again(const Operation& op) {
  group_->meet(operations, ++meetings_, what(op), false, "had not finished");
}

// Headers are compared whether or not checks are asked for: sizes must agree before anybody's memory is touched, and
// here it costs a few loads.
void LocalCommunicator::take_headers(const Operation& op) {
  for (int q = 0; q < size(); ++q) headers_[q] = group_->show(operations, q, meetings_).header;
  require_same(name(), headers_);
  if (op.is(Kind::all_to_all) && op.v())
    require_matching(
        name(), headers_[rank()], size(), [&](int q, int r) { return sent(q, r); },
        [&](int q, int r) { return expected(q, r); });
  scales_ = scales_of(headers_);
}

void LocalCommunicator::run(const Operation& op, void* in, void* out) {
  in_ = static_cast<const std::byte*>(in);
  out_ = static_cast<std::byte*>(out);
  begun_ = meetings_ + 1;
  Show& mine = group_->show(operations, rank(), meetings_ + 1);
  mine.header = header_of(op, operations_++);
  group_->begin_flight(mine.header);
  try {
    show_buffers(op, mine);
  } catch (const std::exception& e) {  // no memory for a stage: the others must not wait
    group_->fail(Failure::Kind::comm, fmt::format("rank {}: {}", rank(), e.what()));
    throw;
  }
  meet(op, mine.shown == shown_buffers || mine.shown == shown_apart);
  group_->set_flight(Flight::running);
  std::exception_ptr error;
  std::optional<Path> way;  // none while the ranks have not agreed: then nobody has touched another's memory
  try {
    take_headers(op);
    way = path();
    if (way == Path::direct) {
      view(op);
      share(op, headers_);
    } else if (way == Path::apart) {
      view(op);
      share_apart(op);
    } else if (way == Path::staged) {
      stage(op);
    } else if (!op.nothing()) {
      for (int q = 0; q < size(); ++q) {
        const Show& s = group_->show(operations, q, meetings_);
        views_[q].data = s.data;
        views_[q].window = s.window;
      }
      consume(op, 0, nullptr);
    }
    // Before this rank comes to the last meeting nobody is done; one that has given up meanwhile (this rank may have
    // been stopped) may have changed its memory while it was read.
    if (group_->host->processes && (way == Path::direct || way == Path::apart)) group_->check();
  } catch (const std::exception& e) {
    if (!group_->failed()) group_->fail(kind_of(e), e.what());
    error = std::current_exception();
  }
  // Others may write to memory that all see; what lies apart they only read, and one that gives up may leave.
  if (way == Path::direct) group_->part(operations, ++meetings_, what(op));
  if (error) std::rethrow_exception(error);
  if (way == Path::apart) meet_again(op);
  group_->set_flight(Flight::done);
}

void LocalCommunicator::collective(const Operation& op) {
  group_->check();
  Buffers buffers(op, rank());
  run(op, buffers.in, buffers.out);
  buffers.finish();
}

std::string LocalCommunicator::describe_algorithm(std::string_view operation, std::int64_t nbytes,
                                                  bool direct) const {
  const Kind kind = kind_of(operation);
  const Tuning& tuning = group_->host->tuning;
  const bool seen =
      tuning.direct && (!group_->host->processes || (direct && group_->about.options.shared_buffers));
  const bool apart = group_->host->single_copy && copied_apart(kind, nbytes, tuning);
  return fmt::format("{} {}", backend(),
                     nbytes <= tuning.inline_bytes ? "inline"
                     : seen                        ? "direct"
                     : apart                       ? "single copy"
                                                   : "staged");
}

void LocalCommunicator::abort(const std::string& reason) noexcept {
  try {
    fail_all(Failure::Kind::comm,
             fmt::format("communicator {}: aborted by rank {}: {}", name(), rank(), reason));
  } catch (...) {  // no memory for the message: nothing more can be said
  }
}

void LocalCommunicator::fail_all(Failure::Kind kind, const std::string& message) noexcept {
  try {
    group_->fail(kind, message);
  } catch (...) {  // as above
  }
}

}  // namespace shoal::comm::local
