#include "comm/backends/composed/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>

#include "shoal/core/error.hpp"
#include "shoal/core/log.hpp"

namespace shoal::comm::composed {
namespace {

Tensor bytes_of(void* data, std::int64_t n) { return Tensor::from_blob(data, {n}, DType::u8, {}); }

// The text of every rank of `c`.
std::vector<std::string> gather_texts(Communicator& c, const std::string& mine) {
  std::vector<std::int64_t> lengths(c.size());
  std::int64_t length = static_cast<std::int64_t>(mine.size());
  c.all_gather(Tensor::from_blob(&length, {1}, DType::i64, {}),
               Tensor::from_blob(lengths.data(), {c.size()}, DType::i64, {}));
  std::int64_t total = 0;
  for (std::int64_t n : lengths) total += n;
  std::string own = mine, all(total, '\0');
  c.all_gather_v(bytes_of(own.data(), length), bytes_of(all.data(), total), lengths);
  std::vector<std::string> texts;
  std::size_t at = 0;
  for (std::int64_t n : lengths) {
    texts.push_back(all.substr(at, n));
    at += n;
  }
  return texts;
}

// A message that another communicator moves. Its place among those of its pair is taken when it is given there.
class Forwarded final : public Transfer {
 public:
  explicit Forwarded(Work work) : work_(std::move(work)) {}
  State step() override {
    if (!work_.is_completed()) return State::ordered;
    work_.synchronize();
    return State::done;
  }
  void check(double) override {}

 private:
  const Work work_;
};

}  // namespace

std::shared_ptr<Communicator> compose(std::shared_ptr<Communicator> flat, std::shared_ptr<Communicator> host,
                                      const std::string& key, const CommOptions& options) {
  Hosts hosts = hosts_of(gather_texts(*flat, key));
  if (hosts.count() == 1) return host;
  if (hosts.count() == flat->size()) return flat;
  return std::make_shared<ComposedCommunicator>(std::move(flat), std::move(host), std::move(hosts), key,
                                                options);
}

ComposedCommunicator::ComposedCommunicator(std::shared_ptr<Communicator> flat,
                                           std::shared_ptr<Communicator> host, Hosts hosts,
                                           const std::string& key, const CommOptions& options)
    : HostCommunicator(flat->rank(), flat->size()),
      flat_(std::move(flat)),
      host_(std::move(host)),
      hosts_(std::move(hosts)),
      key_(key),
      options_(options) {
  const int index = hosts_.index_of[rank()];
  across_ = flat_->split(index < hosts_.rails ? index : -1, hosts_.host_of[rank()]);
  if (log::debug_enabled())
    log::debug(fmt::format("communicator {} ({}): rank {} of {}, rank {} of {} on host {} of {}, {} rails",
                           name(), backend(), rank(), size(), index, host_->size(), hosts_.host_of[rank()],
                           hosts_.count(), hosts_.rails));
}

ComposedCommunicator::~ComposedCommunicator() {
  if (std::uncaught_exceptions() > 0 && busy()) abort("it failed while it had operations under way");
  finish();
}

void ComposedCommunicator::abort(const std::string& reason) noexcept {
  try {
    fail_all(Failure::Kind::comm,
             fmt::format("communicator {}: aborted by rank {}: {}", name(), rank(), reason));
  } catch (...) {  // no memory for the message: nothing more can be said
  }
}

void ComposedCommunicator::fail_all(Failure::Kind kind, const std::string& message) noexcept {
  // And with `flat` what was split from it.
  for (Communicator* part : {flat_.get(), host_.get()})
    if (auto* host = dynamic_cast<HostCommunicator*>(part))
      host->fail_all(kind, message);
    else
      part->abort(message);
}

std::shared_ptr<Communicator> ComposedCommunicator::split(int color, int key) {
  std::shared_ptr<Communicator> made;
  in_order("split", [&] {
    failure_.check();
    auto flat = flat_->split(color, key);
    auto host = host_->split(color, key);
    if (flat) made = compose(std::move(flat), std::move(host), key_, options_);
  });
  return made;
}

std::vector<Header> ComposedCommunicator::meet(const Operation& op) const {
  Header mine = header_of(op, operations_ - 1);
  std::vector<Header> headers(size());
  constexpr std::int64_t n = sizeof(Header);
  flat_->all_gather(bytes_of(&mine, n), bytes_of(headers.data(), n * size()));
  require_same(name(), headers);
  return headers;
}

void ComposedCommunicator::collective(const Operation& op) {
  failure_.check();
  ++operations_;
  try {
    std::vector<Header> headers;
    if (options_.check || op.tree()) headers = meet(op);
    run(op, headers);
  } catch (const std::exception& e) {
    std::string text = e.what();
    // What a part of the ranks says counts ranks in its own way.
    if (text.find(fmt::format("communicator {}:", name())) == std::string::npos)
      text = fmt::format(
          "communicator {}: {} (operation {}): among the ranks of one host ({} here), or of one rail: {}",
          name(), describe(op), operations_ - 1, rank_list(hosts_.ranks[hosts_.host_of[rank()]]), text);
    failure_.set(kind_of(e), text);
    fail_all(failure_.kind(), failure_.message());
    failure_.raise();
  }
}

void ComposedCommunicator::run(const Operation& op, const std::vector<Header>& headers) {
  switch (op.kind) {
    case Kind::barrier: return barrier();
    case Kind::all_reduce: return op.nothing() ? void() : all_reduce(op);
    case Kind::reduce: return op.nothing() ? void() : reduce(op);
    case Kind::reduce_scatter: return op.nothing() ? void() : reduce_scatter(op);
    case Kind::all_gather: return op.nothing() ? void() : all_gather(op);
    case Kind::broadcast: return op.nothing() ? void() : broadcast(op);
    case Kind::reduce_tree:
    case Kind::reduce_scatter_tree: return tree(op, headers) ? void() : run_flat(op);
    case Kind::gather:
    case Kind::scatter:
    case Kind::all_to_all: return run_flat(op);
    case Kind::send:
    case Kind::recv:
    case Kind::split: return;
  }
}

std::unique_ptr<Transfer> ComposedCommunicator::transfer(const Operation& op) {
  const bool near = hosts_.host_of[op.root] == hosts_.host_of[rank()];
  Communicator& through = near ? *host_ : *flat_;
  const int peer = near ? hosts_.index_of[op.root] : op.root;
  return std::make_unique<Forwarded>(op.kind == Kind::send ? through.send_async(op.in, peer, network_)
                                                           : through.recv_async(op.out, peer, network_));
}

std::exception_ptr ComposedCommunicator::message_failed(const Operation& op, std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    failure_.set(kind_of(e),
                 fmt::format("communicator {}: rank {}: {}: {}", name(), rank(), describe(op), e.what()));
    fail_all(failure_.kind(), failure_.message());
    try {
      failure_.raise();
    } catch (...) {
      return std::current_exception();
    }
  } catch (...) {
    return error;
  }
}

std::string ComposedCommunicator::describe_algorithm(std::string_view operation, std::int64_t nbytes,
                                                     bool direct) const {
  const std::int64_t part = nbytes / hosts_.rails;
  const auto on_host = [&](std::string_view what) { return host_->describe_algorithm(what, nbytes, direct); };
  const auto on_rail = [&](std::string_view what) { return flat_->describe_algorithm(what, part, direct); };
  switch (kind_of(operation)) {
    case Kind::all_reduce:
    case Kind::reduce:
    case Kind::reduce_scatter:
      return fmt::format("{} rails: {}, {} among {} hosts", hosts_.rails, on_host("reduce_scatter_v"),
                         on_rail(operation), hosts_.count());
    case Kind::all_gather:
    case Kind::broadcast:
      return fmt::format("{} rails: {} among {} hosts, {}", hosts_.rails, on_rail(operation), hosts_.count(),
                         on_host("all_gather_v"));
    default: return flat_->describe_algorithm(operation, nbytes, direct);
  }
}

Counts ComposedCommunicator::rail_parts(std::int64_t count) const {
  Counts parts(host_->size());
  for (int i = 0; i < hosts_.rails; ++i) parts[i] = part_of(count, hosts_.rails, i).size;
  return parts;
}

Tensor ComposedCommunicator::room(std::int64_t nbytes) {
  if (!room_.defined() || room_.numel() < nbytes) {
    room_ = Tensor();
    room_ = Tensor::empty({nbytes}, DType::u8, host_->allocator());
  }
  return room_;
}

}  // namespace shoal::comm::composed
