#include "comm/host_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "shoal/core/error.hpp"

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

void HostCommunicator::require_own_process() const {
  if (forks_ != fork_depth())
    throw CommError(fmt::format(
        "communicator {}: used in a child of the process that is rank {}: a fork is no rank", name(), rank_));
}

std::shared_ptr<HostWork> HostCommunicator::new_work() {
  auto work = std::make_shared<HostWork>();
  // Not a shared pointer: the destructor of the communicator waits for this very work.
  if (!may_use_threads()) work->drive_by([this] { messages_.drive(); });
  return work;
}

Work HostCommunicator::submit(Request request) {
  require_own_process();
  require_host(name(), request);
  Batch* group = open_batch();
  if (!group && request.blocking) {
    if (request.message()) {
      messages_.run({messages_.add(std::move(request), Event())}, may_use_threads());
    } else {
      const auto run = [this, &request] { collective(request); };
      queue_.run(run);
    }
    return Work();
  }
  Issued issued;
  if (!request.blocking) {
    issued.work = new_work();
    issued.ready = request.stream.record();
    request.stream = Stream();
  }
  issued.op = std::move(request);
  if (!group) return start(std::move(issued));
  if (issued.work) issued.work->hold(true);
  const auto work = issued.work;
  group->issued.push_back(std::move(issued));
  return work ? Work(work) : Work();
}

Work HostCommunicator::start(Issued issued) {
  const auto work = issued.work;
  if (issued.op.message())
    messages_.post(messages_.add(std::move(issued.op), std::move(issued.ready)), work, may_use_threads());
  else
    post_collective(std::move(issued));
  return Work(work);
}

// The operation lets go of its tensors before it counts as complete.
void HostCommunicator::post_collective(Issued issued) {
  auto task = [this, issued = std::move(issued)]() mutable {
    std::exception_ptr error;
    try {
      issued.ready.synchronize();
      collective(issued.op);
    } catch (...) {
      error = std::current_exception();
    }
    issued.op = Operation();
    issued.work->complete(error);
  };
  if (may_use_threads())
    queue_.post(std::move(task));
  else
    queue_.run(task);
}

void HostCommunicator::in_order(const char* what, const std::function<void()>& task) {
  require_own_process();
  if (open_batch())
    throw CommError(
        fmt::format("communicator {}: {} within a group: it belongs before or after", name(), what));
  queue_.run(task);
}

void HostCommunicator::finish() {
  messages_.stop();
  queue_.stop();
}

Part part_of(std::int64_t count, int n, int i) {
  constexpr std::int64_t line = 16;
  const std::int64_t lines = (count + line - 1) / line;
  const auto edge = [&](std::int64_t k) {
    return std::min(count, (lines / n * k + std::min(k, lines % n)) * line);
  };
  return {edge(i), edge(i + 1) - edge(i)};
}

Buffers::Buffers(const Operation& op, int rank) : in(op.in.data()), out(op.out.data()) {
  const std::int64_t in_bytes = op.in.nbytes(), out_bytes = op.out.nbytes();
  if (!overlap(in, in_bytes, out, out_bytes)) return;
  const auto* in_begin = static_cast<const std::byte*>(op.in.data());
  const auto* out_begin = static_cast<const std::byte*>(op.out.data());
  const bool gathers = op.is(Kind::all_gather) || op.is(Kind::gather);
  if ((gathers && in_begin != out_begin + op.part_offset(rank)) || op.is(Kind::all_to_all)) {
    in_copy_.assign(in_begin, in_begin + in_bytes);
    in = in_copy_.data();
  }
  const bool scatters = op.is(Kind::reduce_scatter) || op.is(Kind::scatter);
  if (scatters && out_begin != in_begin + op.part_offset(rank)) {
    home_ = out;
    out_copy_.resize(out_bytes);
    out = out_copy_.data();
  }
}

void Buffers::finish() {
  if (home_) std::memcpy(home_, out_copy_.data(), out_copy_.size());
}

bool overlap(const void* a, std::int64_t a_bytes, const void* b, std::int64_t b_bytes) {
  const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && x < y + b_bytes && y < x + a_bytes;
}

}  // namespace shoal::comm
