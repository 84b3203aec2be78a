// Ranks as processes, over MPI's point-to-point messages. The algorithms are our own, so that every rank gets
// the same bits, sums follow the tree, 16-bit sums are rounded once, and a wait can end: MPI's collectives
// promise none of these.
#pragma once
#include <memory>

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

 private:
  void collective(const Operation& op) override;
  void point_to_point(const Operation& op) override;
  bool may_use_threads() const override { return runtime_.threads(); }

  void run(const Operation& op);
  std::vector<Header> meet(const Operation& op);
  void wait(Exchange& exchange, const Operation& op, bool may_sleep);
  [[noreturn]] void fail(Failure::Kind kind, const std::string& message);
  std::string where(const Operation& op) const;
  std::byte* scratch(std::int64_t nbytes);
  Exchange exchange() { return Exchange(runtime_, comm_); }

  // collectives.cpp and reductions.cpp
  void all_reduce(const Operation& op);
  void all_reduce_small(const Operation& op);
  void reduce_scatter(const Operation& op);
  void all_gather(const Operation& op);
  void broadcast(const Operation& op);
  void all_to_all(const Operation& op);
  void tree(const Operation& op, const std::vector<Header>& headers);

  void send(const Operation& op);  // p2p.cpp
  void recv(const Operation& op);
  void match(const Operation& op, MPI_Message& message, MPI_Status& status);

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
  std::vector<std::mutex> to_, from_;  // one message to or from a peer at a time: their order is the pair's
};

}  // namespace shoal::comm::mpi
