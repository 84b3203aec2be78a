// The memory of a control block: of this process, or a shared segment.
#pragma once
#include <memory>
#include <string>

#include "comm/backends/local/control.hpp"
#include "comm/backends/local/segment.hpp"

namespace shoal::comm::local {

class Block {
 public:
  // Zeroed, for ranks that are threads of this process. Pages come with their first use.
  explicit Block(const Layout& layout);
  Block(const Layout& layout, std::shared_ptr<Segment> segment);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // The segment of a new control block, with memory behind its slots.
  static std::shared_ptr<Segment> make_segment(const Layout& layout, const std::string& communicator);

  const Layout layout;
  Control* control() const { return control_; }
  Segment* segment() const { return segment_.get(); }
  // Puts memory behind a part; once is enough. Throws DeviceError where there is none.
  void commit(std::int64_t offset, std::int64_t bytes, const std::string& what);

 private:
  Control* control_ = nullptr;
  const std::shared_ptr<Segment> segment_;
};

// Of a world of threads.
std::shared_ptr<Block> make_block(int ranks);

}  // namespace shoal::comm::local
