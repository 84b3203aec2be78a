// Ranks as processes, over MPI's point-to-point messages. The algorithms are our own, so that every rank gets
// the same bits, sums follow the tree, 16-bit sums are rounded once, and a wait can end: MPI's collectives
// promise none of these.
#pragma once
#include <deque>
#include <memory>
#include <mutex>

#include "comm/backends/mpi/exchange.hpp"
#include "comm/host_communicator.hpp"

namespace shoal::comm::mpi {

class MpiCommunicator final : public HostCommunicator {
 public:
  // Takes `comm`, which is this communicator's own.
  MpiCommunicator(Runtime& runtime, MPI_Comm comm, std::string name, std::string id,
                  const CommOptions& options, std::shared_ptr<Allocator> allocator);
  ~MpiCommunicator() override;

  std::string name() const override { return name_; }
  std::string backend() const override { return "mpi"; }
  std::shared_ptr<Communicator> split(int color, int key) override;
  std::shared_ptr<Allocator> allocator() override { return allocator_; }
  void abort(const std::string& reason) noexcept override;
  void fail_all(Failure::Kind kind, const std::string& message) noexcept override;
  std::string describe_algorithm(std::string_view operation, std::int64_t nbytes, bool direct) const override;

 private:
  void collective(const Operation& op) override;
  std::unique_ptr<Transfer> transfer(const Operation& op) override;  // p2p.cpp
  void require_working() override { failure_->check(); }
  std::exception_ptr message_failed(const Operation& op, std::exception_ptr error) override;
  bool may_use_threads() const override { return runtime_.threads(); }

  void run(const Operation& op);
  void run(const Operation& op, Buffers& buffers, const std::vector<Header>& headers);
  std::vector<Header> meet(const Operation& op);
  void wait(Exchange& exchange, const Operation& op, bool may_sleep);
  [[noreturn]] void fail(Failure::Kind kind, const std::string& message);
  std::string where(const Operation& op) const;
  std::byte* scratch(std::int64_t nbytes);
  Exchange exchange() { return Exchange(runtime_, comm_); }

  void require_counts(const Operation& op, const Header& header);

  // collectives.cpp and reductions.cpp
  void all_reduce(const Operation& op);
  void all_reduce_small(const Operation& op);
  void reduce_scatter(const Operation& op, void* out);
  void all_gather(const Operation& op, const void* in);
  void broadcast(const Operation& op);
  void gather(const Operation& op, const void* in);
  void scatter(const Operation& op, void* out);
  void all_to_all(const Operation& op, const void* in);
  void tree(const Operation& op, const std::vector<Header>& headers);

  class Sending;  // p2p.cpp
  class Receiving;
  friend class Sending;
  friend class Receiving;
  void check_peer(const Operation& op, double seconds);

  Runtime& runtime_;
  MPI_Comm comm_, messages_ = MPI_COMM_NULL;  // collectives; send and receive
  const std::string name_, id_;
  const CommOptions options_;
  const std::shared_ptr<Allocator> allocator_;
  const std::shared_ptr<Failure> failure_ = std::make_shared<Failure>();
  std::vector<int> world_ranks_;
  std::int64_t operations_ = 0;
  std::shared_ptr<std::byte[]> scratch_;
  std::int64_t scratch_bytes_ = 0;
  std::vector<double> scales_;  // of the operation that runs
  struct Own {                  // a message of this rank to itself
    DType dtype = DType::u8;
    std::int64_t count = 0;
    std::vector<std::byte> bytes;
  };
  std::mutex own_mutex_;
  std::deque<Own> own_;
};

}  // namespace shoal::comm::mpi
