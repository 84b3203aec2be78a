#include "comm/backends/mpi/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <numeric>

#include "comm/wait.hpp"
#include "shoal/core/error.hpp"
#include "shoal/core/log.hpp"

namespace shoal::comm::mpi {
namespace {

int mpi_rank(MPI_Comm comm) {
  int rank = 0;
  check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}
int mpi_size(MPI_Comm comm) {
  int size = 0;
  check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

// From this size on the ranks meet before data moves: waiting for a late rank may then sleep, polling for
// data not.
constexpr std::int64_t meet_bytes = 262144;
// Up to this much in all ranks' buffers together an all-reduce costs less than a second round.
constexpr std::int64_t small_bytes = 65536;

}  // namespace

MpiCommunicator::MpiCommunicator(Runtime& runtime, MPI_Comm comm, std::string name, std::string id,
                                 const CommOptions& options, std::shared_ptr<Allocator> allocator)
    : HostCommunicator(mpi_rank(comm), mpi_size(comm)),
      runtime_(runtime),
      comm_(comm),
      name_(std::move(name)),
      id_(std::move(id)),
      options_(options),
      allocator_(std::move(allocator)),
      world_ranks_(size()) {
  auto serial = runtime_.lock();
  check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_dup(comm_, &messages_), "MPI_Comm_dup");
  MPI_Group mine, world;
  check(MPI_Comm_group(comm_, &mine), "MPI_Comm_group");
  check(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  std::vector<int> here(size());
  std::iota(here.begin(), here.end(), 0);
  check(MPI_Group_translate_ranks(mine, size(), here.data(), world, world_ranks_.data()),
        "MPI_Group_translate_ranks");
  MPI_Group_free(&mine);
  MPI_Group_free(&world);
  if (serial.owns_lock()) serial.unlock();
  if (std::find(world_ranks_.begin(), world_ranks_.end(), MPI_UNDEFINED) != world_ranks_.end())
    throw ConfigError(fmt::format("communicator {}: it has ranks outside MPI_COMM_WORLD", name_));
  runtime_.enroll(id_, failure_);
  if (log::debug_enabled())
    log::debug(fmt::format("communicator {} (mpi): rank {} of {}", name_, rank(), size()));
}

MpiCommunicator::~MpiCommunicator() {
  if (std::uncaught_exceptions() > 0 && busy()) abort("it failed while it had operations under way");
  finish();
  if (failure_->failed() || !Runtime::running()) return;
  auto serial = runtime_.lock();
  MPI_Comm_free(&messages_);
  MPI_Comm_free(&comm_);
}

std::string MpiCommunicator::where(const Operation& op) const {
  if (op.kind == Kind::send || op.kind == Kind::recv)
    return fmt::format("communicator {}: rank {}: {}", name_, rank(), describe(op));
  return fmt::format("communicator {}: {} (operation {})", name_, describe(op), operations_ - 1);
}

void MpiCommunicator::fail(Failure::Kind kind, const std::string& message) {
  if (!failure_->failed()) runtime_.tell(world_ranks_, id_, kind, message);
  failure_->raise();
}

void MpiCommunicator::abort(const std::string& reason) noexcept {
  try {
    fail_all(Failure::Kind::comm,
             fmt::format("communicator {}: aborted by rank {}: {}", name_, rank(), reason));
  } catch (...) {  // no memory for the message: nothing more can be said
  }
}

void MpiCommunicator::fail_all(Failure::Kind kind, const std::string& message) noexcept {
  try {
    if (!failure_->failed() && Runtime::running()) runtime_.tell(world_ranks_, id_, kind, message);
  } catch (...) {  // as above
  }
}

std::byte* MpiCommunicator::scratch(std::int64_t nbytes) {
  if (nbytes > scratch_bytes_) {
    scratch_ = std::make_shared_for_overwrite<std::byte[]>(nbytes);
    scratch_bytes_ = nbytes;
  }
  return scratch_.get();
}

void MpiCommunicator::wait(Exchange& exchange, const Operation& op, bool may_sleep) {
  exchange.wait(
      [&](const std::vector<int>& ranks, double seconds) {
        failure_->check();
        if (!runtime_.threads()) drive();
        if (interrupted())
          fail(Failure::Kind::comm, fmt::format("{}: rank {} was {}", where(op), rank(), interrupted_text));
        // What a rank sent before it left may still be on its way.
        for (int r : ranks)
          if (runtime_.left(world_ranks_[r]) && seconds > 2.0)
            fail(Failure::Kind::comm,
                 fmt::format("{}: rank {} has ended while this one waits for it", where(op), r));
        if (seconds > options_.timeout.count())
          fail(Failure::Kind::timeout, fmt::format("{}: {} had not arrived after {:g} s", where(op),
                                                   rank_list(ranks), options_.timeout.count()));
      },
      may_sleep);
}

// Every rank sees every rank's header.
std::vector<Header> MpiCommunicator::meet(const Operation& op) {
  std::vector<Header> headers(size());
  headers[rank()] = header_of(op, operations_ - 1);
  Exchange e = exchange();
  constexpr int tag = 0;
  for (int r = 0; r < size(); ++r)
    if (r != rank()) e.recv(r, &headers[r], sizeof(Header), tag);
  for (int r = 0; r < size(); ++r)
    if (r != rank()) e.send(r, &headers[rank()], sizeof(Header), tag);
  try {
    wait(e, op, true);
  } catch (...) {
    runtime_.keep(std::make_shared<std::vector<Header>>(std::move(headers)));
    throw;
  }
  require_same(name_, headers);
  return headers;
}

void MpiCommunicator::collective(const Operation& op) {
  failure_->check();
  ++operations_;
  try {
    run(op);
  } catch (const std::exception& e) {
    // Messages may still be under way to and from these.
    runtime_.keep(std::make_shared<Operation>(op));
    runtime_.keep(std::move(scratch_));
    scratch_bytes_ = 0;
    if (failure_->failed()) throw;
    fail(kind_of(e), e.what());
  }
}

// Each rank's counts lie in headers of their own kind, as many as it takes to hold them.
void MpiCommunicator::require_counts(const Operation& op, const Header& header) {
  const std::size_t n = static_cast<std::size_t>(size());
  std::vector<std::int64_t> all(2 * n * n);
  std::int64_t* mine = &all[2 * n * rank()];
  std::copy(op.counts.begin(), op.counts.end(), mine);
  std::copy(op.recv_counts.begin(), op.recv_counts.end(), mine + n);
  const std::int64_t bytes = static_cast<std::int64_t>(2 * n * sizeof(std::int64_t));
  Exchange e = exchange();
  constexpr int tag = 0;
  for (int r = 0; r < size(); ++r)
    if (r != rank()) e.recv(r, &all[2 * n * r], bytes, tag);
  for (int r = 0; r < size(); ++r)
    if (r != rank()) e.send(r, mine, bytes, tag);
  try {
    wait(e, op, true);
  } catch (...) {
    runtime_.keep(std::make_shared<std::vector<std::int64_t>>(std::move(all)));
    throw;
  }
  require_matching(
      name_, header, size(), [&](int q, int r) { return all[2 * n * q + r]; },
      [&](int q, int r) { return all[2 * n * q + n + r]; });
}

void MpiCommunicator::run(const Operation& op) {
  const bool matched = op.is(Kind::all_to_all) && op.v();
  std::vector<Header> headers;
  if (options_.check || op.tree() || op.reduce.scaled || op.is(Kind::barrier) ||
      (!matched && op.nbytes() >= meet_bytes))
    headers = meet(op);
  if (matched && options_.check) require_counts(op, headers[0]);
  if (op.nothing()) return;
  scales_ = scales_of(headers);
  Buffers buffers(op, rank());
  try {
    run(op, buffers, headers);
  } catch (...) {  // messages may still be under way to and from the copies
    runtime_.keep(std::make_shared<Buffers>(std::move(buffers)));
    throw;
  }
  buffers.finish();
}

void MpiCommunicator::run(const Operation& op, Buffers& buffers, const std::vector<Header>& headers) {
  switch (op.kind) {
    case Kind::all_reduce:
      if (op.nbytes() * size() <= small_bytes) return all_reduce_small(op);
      return all_reduce(op);
    case Kind::reduce: return all_reduce(op);
    case Kind::reduce_scatter: return reduce_scatter(op, buffers.out);
    case Kind::all_gather: return all_gather(op, buffers.in);
    case Kind::broadcast: return broadcast(op);
    case Kind::gather: return gather(op, buffers.in);
    case Kind::scatter: return scatter(op, buffers.out);
    case Kind::all_to_all: return all_to_all(op, buffers.in);
    case Kind::reduce_tree:
    case Kind::reduce_scatter_tree: return tree(op, headers);
    case Kind::barrier:
    case Kind::split:
    case Kind::send:
    case Kind::recv: return;
  }
}

std::string MpiCommunicator::describe_algorithm(std::string_view operation, std::int64_t nbytes, bool) const {
  switch (kind_of(operation)) {
    case Kind::all_reduce: return nbytes * size() <= small_bytes ? "mpi all to all" : "mpi scatter-gather";
    case Kind::reduce: return "mpi scatter-gather";
    case Kind::broadcast: return "mpi binomial tree";
    case Kind::barrier:
    case Kind::split: return "mpi all to all";
    case Kind::reduce_tree: return "mpi ordered scatter-gather";
    case Kind::reduce_scatter_tree: return "mpi ordered scatter";
    case Kind::reduce_scatter: return "mpi scatter";
    case Kind::all_gather:
    case Kind::gather:
    case Kind::scatter:
    case Kind::all_to_all:
    case Kind::send:
    case Kind::recv: break;
  }
  return "mpi direct";
}

std::shared_ptr<Communicator> MpiCommunicator::split(int color, int key) {
  std::shared_ptr<Communicator> result;
  in_order("split", [&] {
    failure_->check();
    ++operations_;
    Operation op;
    op.kind = Kind::split;
    op.first = color;
    op.last = key;
    try {
      meet(op);  // so that a rank that does something else is found here, where a wait can end
      MPI_Comm made = MPI_COMM_NULL;
      {
        auto serial = runtime_.lock();
        check(MPI_Comm_split(comm_, color < 0 ? MPI_UNDEFINED : color, key, &made), "MPI_Comm_split");
      }
      if (color < 0) return;
      result = std::make_shared<MpiCommunicator>(runtime_, made, fmt::format("{}/{}", name_, color),
                                                 fmt::format("{}/{}.{}", id_, operations_, color), options_,
                                                 allocator_);
    } catch (const std::exception& e) {
      if (failure_->failed()) throw;
      fail(kind_of(e), e.what());
    }
  });
  return result;
}

}  // namespace shoal::comm::mpi
