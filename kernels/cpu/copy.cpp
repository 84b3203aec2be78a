// A copy of what will not be read soon: n bytes read and n written, past the caches, which saves reading each line
// before it is overwritten; memcpy moves n bytes more, up to a size that depends on the whole cache. Four lines at a
// time, so that loads of the next ones are under way while the stores of a line fill it.
#include "kernels/cpu/copy.hpp"

#include "kernels/common/vec.hpp"

namespace shoal::kernels::SHOAL_ISA {

void copy_past_caches(const void* from, void* to, std::int64_t bytes) {
  constexpr int64_t line = 64, run = 4 * line;
  auto* s = static_cast<const char*>(from);
  auto* d = static_cast<char*>(to);
  const int64_t head = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(d) % line);
  if (bytes < head + run) {
    memcpy(d, s, static_cast<size_t>(bytes));
    return;
  }
  memcpy(d, s, static_cast<size_t>(head));
  int64_t done = head;
  for (; done + run <= bytes; done += run) {
    const auto* x = reinterpret_cast<const float*>(s + done);
    auto* y = reinterpret_cast<float*>(d + done);
    const vf a = load(x), b = load(x + 16), c = load(x + 32), e = load(x + 48);
    stream(y, a);
    stream(y + 16, b);
    stream(y + 32, c);
    stream(y + 48, e);
  }
  stream_fence();
  memcpy(d + done, s + done, static_cast<size_t>(bytes - done));
}

}  // namespace shoal::kernels::SHOAL_ISA
