// Operations on buffers in the ranks' own memory that the others can read (single_copy.hpp). Each rank reads what it
// needs from where it lies: S bytes read and S written for what only moves data, where stages cost twice that. Sums are
// made from blocks that stay in the second-level cache, each rank's share of them. A reduce goes through the stages: all
// that its root can leave to the others is to bring the data near.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "comm/backends/local/communicator.hpp"
#include "comm/backends/local/single_copy.hpp"
#include "shoal/core/error.hpp"

namespace shoal::comm::local {
namespace {

constexpr std::int64_t cached_bytes = 262144;  // all ranks' blocks of a sum together

}  // namespace

bool copied_apart(Kind kind, std::int64_t bytes, const Tuning& tuning) {
  switch (kind) {
    case Kind::all_reduce:
    case Kind::reduce_scatter: return bytes >= tuning.single_copy_sum_bytes;
    case Kind::all_gather:
    case Kind::broadcast:
    case Kind::gather:
    case Kind::scatter:
    case Kind::all_to_all: return bytes >= tuning.single_copy_bytes;
    default: return false;
  }
}

bool LocalCommunicator::copies_apart(const Operation& op, std::int64_t window) const {
  return group_->host->single_copy && copied_apart(op.kind, shown_bytes(op, window), group_->host->tuning);
}

// n bytes of rank q's memory.
void LocalCommunicator::read_apart(const Operation& op, int q, const std::byte* from, bool apart, void* to,
                                   std::int64_t n) const {
  if (n == 0) return;
  if (q == rank() || !apart) {
    if (to != from) std::memcpy(to, from, n);
  } else if (!read_memory(group_->process_of(q), from, to, n)) {
    const std::string why = std::generic_category().message(errno), ended = group_->departed(q, 0);
    group_->check();
    throw CommError(fmt::format("communicator {}: {}: rank {} {}", name(), what(op)(), q,
                                !ended.empty()
                                    ? ended
                                    : fmt::format("(process {}): {} bytes of its memory cannot be read: {}",
                                                  group_->process_of(q), n, why)));
  }
}

void LocalCommunicator::read_input(const Operation& op, int q, std::int64_t offset, void* to,
                                   std::int64_t n) const {
  read_apart(op, q, in_of(q) + offset, views_[q].in_apart, to, n);
}

// The sum of `count` elements that lie at `offset` bytes of every rank's input.
void LocalCommunicator::sum_apart(const Operation& op, std::int64_t offset, std::int64_t count,
                                  std::byte* sum, bool stream) {
  const std::int64_t width = size_of(op.dtype);
  const std::int64_t block = std::max<std::int64_t>(cached_bytes / size() / width / 64 * 64, 64);
  apart_.resize(static_cast<std::size_t>(block * width * size()));
  for (std::int64_t done = 0; done < count; done += block) {
    const std::int64_t len = std::min(block, count - done), at = offset + done * width;
    sources_.clear();
    for (int q = 0; q < size(); ++q) {
      std::byte* own = apart_.data() + q * block * width;
      if (q == rank() || !views_[q].in_apart) {
        sources_.push_back(in_of(q) + at);
      } else {
        read_input(op, q, at, own, len * width);
        sources_.push_back(own);
      }
    }
    void* to = sum + done * width;
    combine_to(op, sources_, &to, 1, stream, len, scales_);
  }
}

// Each rank makes its part of the sum where it belongs, and reads the others' parts from where these have made them.
void LocalCommunicator::all_reduce_apart(const Operation& op) {
  const std::int64_t width = size_of(op.dtype);
  const Part own = part_of(op.count, size(), rank());
  sum_apart(op, own.begin * width, own.size, out_ + own.begin * width, past_caches(op, in_, out_));
  meet_again(op);
  for (int i = 1; i < size(); ++i) {
    const int q = (rank() + i) % size();
    const Part part = part_of(op.count, size(), q);
    const std::int64_t at = part.begin * width;
    read_apart(op, q, out_of(q) + at, views_[q].out_apart, out_ + at, part.size * width);
  }
}

void LocalCommunicator::share_apart(const Operation& op) {
  const std::int64_t width = size_of(op.dtype);
  switch (op.kind) {
    case Kind::all_reduce: return all_reduce_apart(op);
    case Kind::reduce_scatter:
      return sum_apart(op, op.part_offset(rank()), op.part_count(rank()), out_,
                       past_caches(op, in_ + op.part_offset(rank()), out_));
    case Kind::gather:
      if (rank() != op.root) return;
      [[fallthrough]];
    case Kind::all_gather:
      for (int i = 0; i < size(); ++i) {
        const int q = (rank() + i) % size();
        read_input(op, q, 0, out_ + op.part_offset(q), op.part_bytes(q));
      }
      return;
    case Kind::broadcast: return read_input(op, op.root, 0, out_, op.nbytes());
    case Kind::scatter: return read_input(op, op.root, op.part_offset(rank()), out_, op.part_bytes(rank()));
    case Kind::all_to_all:
      for (int i = 0; i < size(); ++i) {
        const int q = (rank() + i) % size();
        read_input(op, q, offset_at(op, q) * width, out_ + op.received_offset(q), op.received_bytes(q));
      }
      return;
    default: return;
  }
}

}  // namespace shoal::comm::local
