#include "comm/backends/local/block.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include "comm/tuning.hpp"
#include "shoal/core/error.hpp"

namespace shoal::comm::local {

Block::Block(const Layout& l) : layout(l) {
  void* p = ::mmap(nullptr, layout.total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
  if (p == MAP_FAILED)
    throw DeviceError(
        fmt::format("a communicator of {} ranks: no {} bytes of address space", layout.size, layout.total));
  control_ = static_cast<Control*>(p);
}

Block::Block(const Layout& l, std::shared_ptr<Segment> segment) : layout(l), segment_(std::move(segment)) {
  if (segment_->bytes() != layout.total)
    throw DeviceError(fmt::format(
        "shared memory of a communicator: {} bytes, expected {}: do the ranks run the same version?",
        segment_->bytes(), layout.total));
  control_ = reinterpret_cast<Control*>(segment_->data());
}

Block::~Block() {
  if (!segment_) ::munmap(control_, layout.total);
}

std::shared_ptr<Segment> Block::make_segment(const Layout& layout, const std::string& communicator) {
  return Segment::create(layout.total, layout.stages, "communicator " + communicator);
}

std::shared_ptr<Block> make_block(int ranks) {
  return std::make_shared<Block>(Layout(ranks, read_tuning().stage_bytes));
}

void Block::commit(std::int64_t offset, std::int64_t bytes, const std::string& what) {
  if (segment_) segment_->reserve(offset, bytes, what);
}

}  // namespace shoal::comm::local
