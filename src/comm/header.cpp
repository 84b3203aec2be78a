#include "comm/header.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "shoal/core/error.hpp"

namespace shoal::comm {
namespace {

bool same(const Header& a, const Header& b) {
  return a.sequence == b.sequence && a.count == b.count && a.leaves == b.leaves && a.root == b.root &&
         a.kind == b.kind && a.dtype == b.dtype && a.reduce == b.reduce && a.flags == b.flags &&
         a.counts_hash == b.counts_hash;
}

std::string describe(const Header& h, std::size_t ranks) {
  Operation op;
  op.kind = h.kind;
  op.dtype = h.dtype;
  op.reduce.op = h.reduce;
  op.reduce.scaled = h.flags & Header::scaled;
  op.root = h.root;
  op.count = h.count;
  op.leaves = h.leaves;
  if (h.flags & Header::v)
    op.counts.assign(h.counts, h.counts + std::min(ranks, static_cast<std::size_t>(Header::shown)));
  std::string text = comm::describe(op);
  if (op.v() && ranks > Header::shown && op.kind != Kind::all_to_all)
    text.insert(text.size() - 1, fmt::format(", ... {} in all, of hash {:016x}", ranks, h.counts_hash));
  return fmt::format("{} (operation {})", text, h.sequence);
}

// FNV-1a over the counts' bytes.
std::uint64_t hash_of(const std::vector<std::int64_t>& counts) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (std::int64_t n : counts)
    for (int byte = 0; byte < 8; ++byte)
      hash = (hash ^ (static_cast<std::uint64_t>(n) >> (8 * byte) & 0xff)) * 0x100000001b3u;
  return hash;
}

void require_runs(const std::string& communicator, const std::vector<Header>& headers) {
  std::int64_t covered = 0;
  for (std::size_t r = 0; r < headers.size(); ++r) {
    if (headers[r].first != covered)
      throw CommError(fmt::format(
          "communicator {}: {}: rank {} holds leaves [{}, {}), but the ranks before it end "
          "at {}",
          communicator, describe(headers[r], headers.size()), r, headers[r].first, headers[r].last, covered));
    covered = headers[r].last;
  }
  if (covered != headers[0].leaves)
    throw CommError(fmt::format("communicator {}: {}: the ranks hold {} of {} leaves", communicator,
                                describe(headers[0], headers.size()), covered, headers[0].leaves));
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
  h.reduce = op.reduce.op;
  h.scale = op.reduce.scale;
  if (op.reduce.scaled) h.flags |= Header::scaled;
  if (!op.v()) return h;
  h.flags |= Header::v;
  if (op.kind == Kind::all_to_all) {  // each rank has counts of its own: compared by require_matching
    h.count = 0;
    return h;
  }
  h.counts_hash = hash_of(op.counts);
  std::copy_n(op.counts.begin(), std::min<std::size_t>(op.counts.size(), Header::shown), h.counts);
  return h;
}

std::vector<double> scales_of(const std::vector<Header>& headers) {
  std::vector<double> scales;
  if (headers.empty() || !(headers[0].flags & Header::scaled)) return scales;
  for (const Header& h : headers) scales.push_back(h.scale);
  return scales;
}

void counts_differ(const std::string& communicator, const Header& header, int from, int to, std::int64_t sent,
                   std::int64_t received) {
  throw CommError(fmt::format(
      "communicator {}: all_to_all_v of {} (operation {}): rank {} sends {} elements to rank {}, which "
      "expects {}",
      communicator, name(header.dtype), header.sequence, from, sent, to, received));
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
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", rank_list(ranks),
                        describe(headers[r], headers.size()));
  }
  throw CommError(fmt::format("communicator {}: ranks called different operations: {}", communicator, text));
}

}  // namespace shoal::comm
