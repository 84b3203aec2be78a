#include <algorithm>
#include <cstring>
#include <fstream>

#include "sides.hpp"

namespace compare {

std::int64_t last_level_cache() {
  static const std::int64_t bytes = [] {
    std::int64_t largest = 0;
    for (int index = 0; index < 8; ++index) {
      std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
      std::int64_t kib = 0;
      if (file >> kib) largest = std::max(largest, kib << 10);
    }
    return largest > 0 ? largest : std::int64_t{32} << 20;
  }();
  return bytes;
}

namespace {

std::int64_t stride_of(const Problem& p) { return (p.bytes + 255) / 256 * 256; }

}  // namespace

Memory::Memory(const std::shared_ptr<shoal::Allocator>& allocator, std::int64_t block_bytes) {
  const std::int64_t bytes = std::max(block_bytes, 2 * last_level_cache());
  for (shoal::Tensor* t : {&in_, &out_}) {
    *t = shoal::Tensor::empty({bytes}, shoal::DType::u8, allocator);
    std::memset(t->data(), 0, static_cast<std::size_t>(bytes));
  }
}

std::int64_t Memory::buffers(const Problem& p) {
  return std::clamp<std::int64_t>(2 * last_level_cache() / stride_of(p), 1, 1024);
}

float* Memory::at(const shoal::Tensor& block, const Problem& p, std::int64_t i) {
  return reinterpret_cast<float*>(static_cast<char*>(block.data()) + i % buffers(p) * stride_of(p));
}

}  // namespace compare
