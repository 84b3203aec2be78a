// Send and receive, beside the collectives (comm/messages.hpp).
#include <fmt/format.h>

#include "comm/backends/local/communicator.hpp"
#include "shoal/core/error.hpp"

namespace shoal::comm::local {

std::unique_ptr<Transfer> LocalCommunicator::transfer(const Operation& op) {
  return op.is(Kind::send) ? talk_.send(op, ref_of(op.in.data(), op.nbytes())) : talk_.recv(op);
}

std::exception_ptr LocalCommunicator::message_failed(const Operation& op, std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    if (!group_->failed())
      group_->fail(kind_of(e),
                   fmt::format("communicator {}: rank {}: {}: {}", name(), rank(), describe(op), e.what()));
  }
  try {
    group_->raise();
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace shoal::comm::local
