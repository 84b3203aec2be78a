// Ranks of several hosts. The ranks of one host talk in its memory, hosts over the network, and each byte crosses the
// network once a host: an all-reduce is a reduce-scatter on each host, an all-reduce of each part among hosts, and an
// all-gather on each host. Written with communicators' public operations alone, so any backends may be beneath.
#pragma once
#include <memory>

#include "comm/backends/composed/hosts.hpp"
#include "comm/failure.hpp"
#include "comm/host_communicator.hpp"

namespace shoal::comm::composed {

// The communicator of all ranks of `flat`, whose ranks of one host (of equal `key`) also have `host`: all of these in
// the order of their ranks in `flat`. Collective. One host: `host` itself. One rank a host: `flat` itself.
std::shared_ptr<Communicator> compose(std::shared_ptr<Communicator> flat, std::shared_ptr<Communicator> host,
                                      const std::string& key, const CommOptions& options);

class ComposedCommunicator final : public HostCommunicator {
 public:
  ComposedCommunicator(std::shared_ptr<Communicator> flat, std::shared_ptr<Communicator> host, Hosts hosts,
                       const std::string& key, const CommOptions& options);
  ~ComposedCommunicator() override;

  std::string name() const override { return flat_->name(); }
  std::string backend() const override { return host_->backend() + "+" + flat_->backend(); }
  std::shared_ptr<Communicator> split(int color, int key) override;
  std::shared_ptr<Allocator> allocator() override { return host_->allocator(); }
  std::string describe_algorithm(std::string_view operation, std::int64_t nbytes, bool direct) const override;
  void abort(const std::string& reason) noexcept override;
  void fail_all(Failure::Kind kind, const std::string& message) noexcept override;

 private:
  void collective(const Operation& op) override;
  std::unique_ptr<Transfer> transfer(const Operation& op) override;
  void require_working() override { failure_.check(); }
  std::exception_ptr message_failed(const Operation& op, std::exception_ptr error) override;
  [[noreturn]] void fail(const Operation& op);

  // What all ranks called; compared first where checks are on, and where the operation needs it.
  std::vector<Header> meet(const Operation& op) const;
  void run(const Operation& op, const std::vector<Header>& headers);
  bool on_network(const Operation& op) const;  // no better way than `flat`'s own

  // sums.cpp
  void all_reduce(const Operation& op);
  void reduce(const Operation& op);
  void reduce_scatter(const Operation& op);
  bool tree(const Operation& op, const std::vector<Header>& headers);
  void run_flat(const Operation& op);
  // moves.cpp
  void all_gather(const Operation& op);
  void broadcast(const Operation& op);
  void barrier();

  // Elements of each rank of this host in a buffer of `count`, cut among the rails.
  Counts rail_parts(std::int64_t count) const;
  // Cached memory of this host, of the same size on all its ranks: at least nbytes.
  Tensor room(std::int64_t nbytes);

  const std::shared_ptr<Communicator> flat_, host_;
  std::shared_ptr<Communicator> across_;  // this rank's rail on all hosts; null where it is none
  const Hosts hosts_;
  const std::string key_;
  const CommOptions options_;
  Stream network_ = Stream::create({});
  Tensor room_;
  Failure failure_;
  std::int64_t operations_ = 0;
};

}  // namespace shoal::comm::composed
