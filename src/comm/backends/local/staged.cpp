// Operations on buffers that other ranks do not see. Each step moves a window of every part: a rank copies its data of
// the window to where all see it, they meet, and each takes what it needs. Stages alternate with the meetings, so that
// a step costs one meeting; an inline operation is one such step, beside the header.
//
// Bytes a rank moves for an all-reduce of S among n: made whole by each, S in, n S read (its own from its own buffer),
// S out; in parts, S in, S read, S / n out, S read and S out. The windows stay in the caches, the buffers do not.
#include <algorithm>
#include <cstring>

#include "comm/backends/local/communicator.hpp"
#include "shoal/core/error.hpp"

namespace shoal::comm::local {
namespace {

constexpr std::int64_t whole_bytes = 32768;  // up to here an all-reduce in parts would only meet once more

const std::byte* at(const void* p, std::int64_t offset) { return static_cast<const std::byte*>(p) + offset; }
void copy_bytes(void* to, const void* from, std::int64_t n) {
  if (n > 0 && to != from) std::memcpy(to, from, n);
}

// The buffer that a rank shows holds a part for each rank.
bool has_parts(const Operation& op) {
  return op.is(Kind::reduce_scatter) || op.is(Kind::all_to_all) || op.is(Kind::scatter) ||
         op.is(Kind::reduce_scatter_tree);
}

// Elements of the longest part that a step cuts a window from.
std::int64_t extent(const Operation& op, int ranks) {
  if (op.is(Kind::reduce_scatter_tree)) return op.count / ranks;
  return op.v() ? *std::max_element(op.counts.begin(), op.counts.end()) : op.count;
}

}  // namespace

// As many elements as fit `bytes` of a stage; all of them for 0.
std::int64_t LocalCommunicator::window(const Operation& op, std::int64_t bytes, int nodes) const {
  if (bytes == 0) return std::max<std::int64_t>(extent(op, size()), 1);
  const std::int64_t pieces = (has_parts(op) ? size() : 1) * std::max<std::int64_t>(nodes, 1);
  std::int64_t most = bytes / (pieces * static_cast<std::int64_t>(size_of(op.dtype)));
  if (most > 16) most = most / 16 * 16;
  if (most < 1)
    throw CommError(name() + ": " + describe(op) +
                    ": a step of local.stage_bytes holds no element of each part");
  return most;
}

std::int64_t LocalCommunicator::steps(const Operation& op, std::int64_t window) const {
  return (extent(op, size()) + window - 1) / window;
}

// Bytes that a step takes, alike on all ranks.
std::int64_t LocalCommunicator::shown_bytes(const Operation& op, std::int64_t window) const {
  const std::int64_t pieces = (has_parts(op) ? size() : 1) * std::max<std::int64_t>(op.leaves, 1);
  return pieces * window * static_cast<std::int64_t>(size_of(op.dtype));
}

bool LocalCommunicator::in_parts(const Operation& op) const {
  return (op.is(Kind::all_reduce) || op.is(Kind::reduce_tree)) && size() > group_->host->tuning.whole_ranks &&
         op.nbytes() > whole_bytes;
}

void LocalCommunicator::publish(const Operation& op, std::int64_t step, std::int64_t window,
                                std::byte* to) const {
  const std::int64_t width = size_of(op.dtype), begin = step * window;
  if ((op.is(Kind::broadcast) || op.is(Kind::scatter)) && rank() != op.root) return;
  const auto put = [&](const void* from, std::int64_t first, std::int64_t count, std::int64_t place) {
    const std::int64_t len = std::min(window, count - begin);
    copy_bytes(to + place * window * width, at(from, (first + begin) * width), len * width);
  };
  const bool gathers = op.is(Kind::all_gather) || op.is(Kind::gather);
  if (op.tree()) {
    const bool scatters = op.is(Kind::reduce_scatter_tree);
    const std::int64_t parts = scatters ? size() : 1, part = op.count / parts;
    for (std::size_t i = 0; i < op.nodes.size(); ++i)
      for (std::int64_t q = 0; q < parts; ++q)
        put(op.nodes[i].data(), q * part, part, static_cast<std::int64_t>(i) * parts + q);
  } else if (has_parts(op)) {
    for (int q = 0; q < size(); ++q) put(in_, op.part_begin(q), op.part_count(q), q);
  } else {
    put(in_, 0, gathers ? op.part_count(rank()) : op.count, 0);
  }
}

// Takes what this rank needs of a step. result: where sums made in parts go; null when they go to the output.
void LocalCommunicator::consume(const Operation& op, std::int64_t step, std::byte* result) {
  const std::int64_t width = size_of(op.dtype), w = views_[rank()].window, begin = step * w;
  const auto clamp = [&](std::int64_t count) { return std::clamp<std::int64_t>(count - begin, 0, w); };
  const bool large = past_caches(op, op.is(Kind::broadcast) ? nullptr : in_, out_);
  const auto sum_to = [&](void* sum, std::int64_t count, bool home) {
    combine_to(op, sources_, &sum, 1, home && large, count, scales_);
  };
  const auto copy_home = [&](void* to, const void* from, std::int64_t n) { copy_out(to, from, n, large); };
  sources_.clear();
  switch (op.kind) {
    case Kind::all_reduce: {
      const Part part = result ? part_of(clamp(op.count), size(), rank()) : Part{0, clamp(op.count)};
      for (int q = 0; q < size(); ++q)
        sources_.push_back(q == rank() ? at(in_, (begin + part.begin) * width)
                                       : views_[q].data + part.begin * width);
      return sum_to(result ? result : out_ + begin * width, part.size, !result);
    }
    case Kind::reduce:
      if (rank() != op.root) return;
      for (int q = 0; q < size(); ++q) sources_.push_back(q == rank() ? in_ + begin * width : views_[q].data);
      return sum_to(out_ + begin * width, clamp(op.count), true);
    case Kind::reduce_scatter:
      for (int q = 0; q < size(); ++q)
        sources_.push_back(q == rank() ? in_ + op.part_offset(q) + begin * width
                                       : views_[q].data + rank() * w * width);
      return sum_to(out_ + begin * width, clamp(op.part_count(rank())), true);
    case Kind::gather:
      if (rank() != op.root) return;
      [[fallthrough]];
    case Kind::all_gather:
      for (int i = 0; i < size(); ++i) {
        const int q = (rank() + i) % size();
        copy_home(out_ + op.part_offset(q) + begin * width,
                  q == rank() ? in_ + begin * width : views_[q].data, clamp(op.part_count(q)) * width);
      }
      return;
    case Kind::broadcast:
      return copy_home(out_ + begin * width, rank() == op.root ? in_ + begin * width : views_[op.root].data,
                       clamp(op.count) * width);
    case Kind::scatter:
      return copy_home(out_ + begin * width,
                       rank() == op.root ? in_ + op.part_offset(rank()) + begin * width
                                         : views_[op.root].data + rank() * w * width,
                       clamp(op.part_count(rank())) * width);
    case Kind::all_to_all:
      for (int i = 0; i < size(); ++i) {
        const int q = (rank() + i) % size();
        const std::int64_t stride = views_[q].window;
        const std::int64_t len =
            std::clamp<std::int64_t>(op.received_bytes(q) - begin * width, 0, stride * width);
        copy_home(
            out_ + op.received_offset(q) + begin * width,
            q == rank() ? in_ + op.part_offset(q) + begin * width : views_[q].data + rank() * stride * width,
            len);
      }
      return;
    case Kind::reduce_tree:
    case Kind::reduce_scatter_tree: {
      if (step == 0) tree_ = std::make_unique<TreeSum>(headers_);
      const bool scatters = op.is(Kind::reduce_scatter_tree);
      const std::int64_t len = clamp(extent(op, size()));
      const Part part = result ? part_of(len, size(), rank()) : Part{0, len};
      const std::int64_t stride = scatters ? size() : 1, place = scatters ? rank() : 0;
      for (int q = 0; q < size(); ++q)
        for (std::int64_t i = 0; i < tree_->nodes_of(q); ++i)
          sources_.push_back(views_[q].data + ((i * stride + place) * w + part.begin) * width);
      return tree_->sum(op.dtype, sources_, result ? result : out_ + begin * width, part.size);
    }
    default: return;
  }
}

// The sums of a step that the ranks made in parts.
void LocalCommunicator::collect(const Operation& op, std::int64_t step) const {
  const std::int64_t width = size_of(op.dtype), w = views_[rank()].window, begin = step * w;
  const std::int64_t len = std::min(w, op.count - begin);
  const int parity = (meetings_ - 1) & 1;
  const bool large = past_caches(op, in_, out_);
  for (int i = 0; i < size(); ++i) {
    const int q = (rank() + i) % size();
    const Part part = part_of(len, size(), q);
    copy_out(out_ + (begin + part.begin) * width, group_->block->layout.result(group_->control(), q, parity),
             part.size * width, large);
  }
}

void LocalCommunicator::commit_stage(const Operation& op) {
  const Layout& l = group_->block->layout;
  if (!stage_committed_)
    group_->block->commit(l.stage_offset(rank()), 4 * l.stage_bytes, name() + ": " + describe(op));
  stage_committed_ = true;
}

void LocalCommunicator::stage(const Operation& op) {
  const Layout& l = group_->block->layout;
  Control* c = group_->control();
  bool ready = !op.tree();  // the first step lies in the stages already
  std::int64_t total = 1;
  for (int q = 0; q < size(); ++q) {
    const Show& s = group_->show(operations, q, meetings_);
    ready = ready && s.shown == shown_in_stage;
    total = std::max(total, s.steps);
  }
  std::int64_t w = window(op, l.stage_bytes, 0);
  if (op.tree()) {
    const TreeSum tree(headers_);
    int most = 1;
    for (int q = 0; q < size(); ++q) most = std::max(most, tree.nodes_of(q));
    w = window(op, l.stage_bytes, most);
    total = steps(op, w);
  }
  commit_stage(op);
  const bool parts = in_parts(op);
  for (std::int64_t step = 0; step < total; ++step) {
    if (step > 0 || !ready) {
      publish(op, step, w, l.stage(c, rank(), (meetings_ + 1) & 1));
      meet_again(op);
    }
    const int parity = meetings_ & 1;
    for (int q = 0; q < size(); ++q) {
      views_[q].data = l.stage(c, q, parity);
      views_[q].window = w;
    }
    consume(op, step, parts ? l.result(c, rank(), parity) : nullptr);
    if (parts && step > 0) collect(op, step - 1);
  }
  if (!parts) return;
  meet_again(op);
  collect(op, total - 1);
}

}  // namespace shoal::comm::local
