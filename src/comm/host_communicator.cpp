#include "comm/host_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "comm/work.hpp"
#include "shoal/core/env.hpp"
#include "shoal/core/error.hpp"
#include "shoal/ops/reduce.hpp"

namespace shoal::comm {
namespace {

void require_host(const std::string& communicator, const Operation& op) {
  const auto check = [&](const Tensor& t) {
    if (t.defined() && t.device().type != DeviceType::cpu)
      throw DeviceError(fmt::format("{} on communicator {}: {} is not in host memory", name(op.kind),
                                    communicator, t.str()));
  };
  check(op.in);
  check(op.out);
  for (const Tensor& t : op.nodes) check(t);
}

}  // namespace

Work HostCommunicator::submit(Request request) {
  require_host(name(), request);
  if (request.kind == Kind::send || request.kind == Kind::recv) {
    point_to_point(request);
    return Work();
  }
  if (request.blocking) {
    const auto run = [this, &request] { collective(request); };
    queue_.run(run);
    return Work();
  }
  auto work = std::make_shared<HostWork>();
  const auto run = [this](const Operation& op, const Event& ready) {
    ready.synchronize();
    collective(op);
  };
  const Event ready = request.stream.record();
  request.stream = Stream();
  // The operation lets go of its tensors before it counts as complete.
  auto task = [this, run, ready, work, op = std::move(request)]() mutable {
    std::exception_ptr error;
    try {
      run(op, ready);
    } catch (...) {
      error = std::current_exception();
    }
    op = Request();
    work->complete(error);
  };
  if (may_use_threads())
    queue_.post(std::move(task));
  else
    queue_.run(task);
  return Work(work);
}

Part part_of(std::int64_t count, int n, int i) {
  constexpr std::int64_t line = 16;
  const std::int64_t lines = (count + line - 1) / line;
  const auto edge = [&](std::int64_t k) {
    return std::min(count, (lines / n * k + std::min(k, lines % n)) * line);
  };
  return {edge(i), edge(i + 1) - edge(i)};
}

void combine(const Operation& op, const std::vector<const void*>& sources, void* dst, std::int64_t count) {
  const int ranks = static_cast<int>(sources.size());
  const auto how = op.reduce == ReduceOp::min       ? ops::Combine::min
                   : op.reduce == ReduceOp::max     ? ops::Combine::max
                   : op.reduce == ReduceOp::product ? ops::Combine::product
                                                    : ops::Combine::sum;
  ops::combine(how, op.dtype, sources.data(), ranks, dst, count, op.reduce == ReduceOp::average ? ranks : 1);
}

bool overlap(const void* a, std::int64_t a_bytes, const void* b, std::int64_t b_bytes) {
  const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && x < y + b_bytes && y < x + a_bytes;
}

CommOptions resolve(CommOptions options) {
  if (const auto seconds = env::timeout()) options.timeout = std::chrono::duration<double>(*seconds);
  if (!(options.timeout.count() > 0))
    throw ConfigError(
        fmt::format("communication timeout of {} s: expected a time above 0", options.timeout.count()));
  if (env::check() != env::Check::off) options.check = true;
  return options;
}

}  // namespace shoal::comm
