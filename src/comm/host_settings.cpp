// The sum that all backends of the host use, and their options.
#include <fmt/format.h>

#include "comm/host_communicator.hpp"
#include "shoal/core/env.hpp"
#include "shoal/core/error.hpp"
#include "shoal/ops/reduce.hpp"

namespace shoal::comm {

void combine(const Operation& op, const std::vector<const void*>& sources, void* dst, std::int64_t count,
             const std::vector<double>& scales) {
  combine_to(op, sources, &dst, 1, false, count, scales);
}

void combine_to(const Operation& op, const std::vector<const void*>& sources, void* const* dst, int copies,
                bool stream, std::int64_t count, const std::vector<double>& scales) {
  const int ranks = static_cast<int>(sources.size());
  const ReduceOp reduce = op.reduce.op;
  const auto how = reduce == ReduceOp::min       ? ops::Combine::min
                   : reduce == ReduceOp::max     ? ops::Combine::max
                   : reduce == ReduceOp::product ? ops::Combine::product
                                                 : ops::Combine::sum;
  ops::combine_to(how, op.dtype, sources.data(), ranks, dst, copies, stream, count,
                  reduce == ReduceOp::average ? ranks : 1, scales.empty() ? nullptr : scales.data());
}

CommOptions resolve(CommOptions options) {
  if (const auto seconds = env::timeout()) options.timeout = std::chrono::duration<double>(*seconds);
  if (!(options.timeout.count() > 0))
    throw ConfigError(
        fmt::format("communication timeout of {} s: expected a time above 0", options.timeout.count()));
  if (env::check() != env::Check::off) options.check = true;
  if (const auto shared = env::shared_buffers()) options.shared_buffers = *shared;
  return options;
}

}  // namespace shoal::comm
