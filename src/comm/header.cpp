#include "comm/header.hpp"

#include <fmt/format.h>

#include "shoal/core/error.hpp"

namespace shoal::comm {
namespace {

bool same(const Header& a, const Header& b) {
  return a.sequence == b.sequence && a.count == b.count && a.leaves == b.leaves && a.root == b.root &&
         a.kind == b.kind && a.dtype == b.dtype && a.reduce == b.reduce;
}

std::string describe(const Header& h) {
  Operation op;
  op.kind = h.kind;
  op.dtype = h.dtype;
  op.reduce = h.reduce;
  op.root = h.root;
  op.count = h.count;
  op.leaves = h.leaves;
  return fmt::format("{} (operation {})", comm::describe(op), h.sequence);
}

void require_runs(const std::string& communicator, const std::vector<Header>& headers) {
  std::int64_t covered = 0;
  for (std::size_t r = 0; r < headers.size(); ++r) {
    if (headers[r].first != covered)
      throw CommError(
          fmt::format("communicator {}: {}: rank {} holds leaves [{}, {}), but the ranks before it end "
                      "at {}",
                      communicator, describe(headers[r]), r, headers[r].first, headers[r].last, covered));
    covered = headers[r].last;
  }
  if (covered != headers[0].leaves)
    throw CommError(fmt::format("communicator {}: {}: the ranks hold {} of {} leaves", communicator,
                                describe(headers[0]), covered, headers[0].leaves));
}

}  // namespace

Header header_of(const Operation& op, std::int64_t sequence) {
  Header h;
  h.sequence = sequence;
  h.count = op.count;
  h.leaves = op.leaves;
  h.first = op.first;
  h.last = op.last;
  h.root = op.root;
  h.kind = op.kind;
  h.dtype = op.dtype;
  h.reduce = op.reduce;
  return h;
}

std::string rank_list(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

void require_same(const std::string& communicator, const std::vector<Header>& headers) {
  bool all = true;
  for (const Header& h : headers) all = all && same(h, headers[0]);
  if (all) {
    if (headers[0].kind == Kind::reduce_tree || headers[0].kind == Kind::reduce_scatter_tree)
      require_runs(communicator, headers);
    return;
  }
  std::vector<bool> told(headers.size());
  std::string text;
  for (std::size_t r = 0; r < headers.size(); ++r) {
    if (told[r]) continue;
    std::vector<int> ranks;
    for (std::size_t q = r; q < headers.size(); ++q)
      if (same(headers[q], headers[r])) {
        told[q] = true;
        ranks.push_back(static_cast<int>(q));
      }
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", rank_list(ranks), describe(headers[r]));
  }
  throw CommError(fmt::format("communicator {}: ranks called different operations: {}", communicator, text));
}

}  // namespace shoal::comm
