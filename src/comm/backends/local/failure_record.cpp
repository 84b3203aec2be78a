// How a failure is told to all ranks of a communicator, and to what was split from it. The first one wins: its text
// goes to the control block, from which every rank throws the same.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "comm/backends/local/group.hpp"
#include "comm/wait.hpp"
#include "shoal/core/error.hpp"
#include "shoal/core/log.hpp"

namespace shoal::comm::local {

void Group::tell(Failure::Kind kind, const std::string& message, int from) const {
  FailureRecord& record = control()->failure;
  std::int32_t expected = FailureRecord::none;
  if (record.state.compare_exchange_strong(expected, FailureRecord::telling, std::memory_order_acq_rel)) {
    record.kind = static_cast<std::int32_t>(kind);
    record.rank = from;
    const std::size_t length = std::min<std::size_t>(message.size(), FailureRecord::room - 1);
    std::memcpy(record.text, message.data(), length);
    record.text[length] = '\0';
    record.state.store(FailureRecord::told, std::memory_order_release);
    log::debug("failed: " + message);
    if (kind == Failure::Kind::timeout && log::debug_enabled()) log::debug(flight_record());
    if (host->outside && from >= 0) host->outside->failed(kind, message, from != root_rank(rank));
  }
  control()->committed.fetch_or(Control::broken, std::memory_order_acq_rel);
}

Group::Copy Group::failure() const {
  const FailureRecord& record = control()->failure;
  if (record.state.load(std::memory_order_acquire) == FailureRecord::none)
    return parent_ ? parent_->failure() : Copy{};
  Copy copy{true, Failure::Kind::comm, "", -1};
  // The one that tells may have been killed in the middle of it.
  for (Backoff backoff(true); record.state.load(std::memory_order_acquire) != FailureRecord::told;
       backoff.pause())
    if (backoff.elapsed() > std::chrono::seconds(1)) {
      copy.message =
          fmt::format("communicator {}: a rank failed and ended before it could say why", about.name);
      return copy;
    }
  copy.kind = static_cast<Failure::Kind>(record.kind);
  copy.rank = record.rank;
  copy.message = record.text;
  return copy;
}

void Group::raise() const {
  const Copy copy = failure();
  tell(copy.kind, copy.message, copy.rank);  // where it was the parent that failed
  // Also -1: what one of the ranks here was told from outside is another rank's failure too.
  if (host->outside && copy.rank != root_rank(rank)) host->outside->failed(copy.kind, copy.message, true);
  if (copy.kind == Failure::Kind::timeout) throw TimeoutError(copy.message);
  throw CommError(copy.message);
}

void Group::fail_unwinding() {
  Group* root = this;
  while (root->parent_) root = root->parent_.get();
  std::int32_t none = 0;
  root->control()->unwinding.compare_exchange_strong(none, root_rank(rank) + 1, std::memory_order_acq_rel);
  fail(Failure::Kind::comm,
       fmt::format("communicator {}: rank {} failed while it had operations under way", about.name, rank));
}

}  // namespace shoal::comm::local
