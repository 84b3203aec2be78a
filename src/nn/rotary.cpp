#include "shoal/ops/rotary.hpp"

#include <fmt/format.h>

#include "shoal/core/error.hpp"
#include "shoal/nn/attention.hpp"

namespace shoal::nn {

void Rotary::apply(const ops::HeadsView& x, std::int64_t heads, const Microbatch& mb, bool backward,
                   std::int64_t first) {
  if (first + mb.seq > seq_)
    throw ShapeError(
        fmt::format("rotary embedding of positions [{}, {}): the model has {}", first, first + mb.seq, seq_));
  if (!cos_.defined()) {
    cos_ = mb.empty({seq_, head_dim_ / 2});
    sin_ = mb.empty({seq_, head_dim_ / 2});
    ops::rotary_table(mb.stream, seq_, head_dim_, theta_, cos_, sin_);
    mb.stream.synchronize();  // other streams (a decoder's) read the tables later
  }
  ops::rotary(mb.stream, x, heads, head_dim_, mb.samples, mb.seq, cos_.slice(first, first + mb.seq),
              sin_.slice(first, first + mb.seq), backward);
}

}  // namespace shoal::nn
