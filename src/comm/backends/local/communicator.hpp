// Ranks as threads of one process. All buffers are in one address space, so every operation takes the direct
// path: each rank computes its share from everybody's buffers and writes it where it belongs, between two
// barriers.
#pragma once
#include <memory>

#include "comm/backends/local/group.hpp"
#include "comm/host_communicator.hpp"

namespace shoal::comm::local {

class LocalCommunicator final : public HostCommunicator {
 public:
  LocalCommunicator(std::shared_ptr<Group> group, int rank, std::shared_ptr<Allocator> allocator);
  ~LocalCommunicator() override;

  std::string name() const override { return group_->name; }
  std::string backend() const override { return group_->backend; }
  std::shared_ptr<Communicator> split(int color, int key) override;
  std::shared_ptr<Allocator> allocator() override { return allocator_; }
  void abort(const std::string& reason) noexcept override;
  std::string describe_algorithm(std::string_view operation, std::int64_t nbytes, bool direct) const override;
  const std::shared_ptr<Group>& group() const { return group_; }

 private:
  void collective(const Operation& op) override;
  std::unique_ptr<Transfer> transfer(const Operation& op) override;  // p2p.cpp
  void require_working() override { group_->failure.check(); }
  std::exception_ptr message_failed(const Operation& op, std::exception_ptr error) override;

  // Shows this rank's buffers, waits for the others, compares, and calls share() while all buffers are in
  // place.
  template <class Share>
  void together(const Operation& op, const void* in, void* out, const Share& share);
  std::vector<Header> headers() const;

  // What rank q shows while an operation runs.
  const std::byte* in_of(int q) const { return static_cast<const std::byte*>(group_->slots[q].in); }
  std::byte* out_of(int q) const { return static_cast<std::byte*>(group_->slots[q].out); }
  // Elements that rank q sends to rank r, and expects of it, in an all_to_all_v.
  std::int64_t sent(int q, int r) const { return group_->slots[q].counts[r]; }
  std::int64_t expected(int q, int r) const { return group_->slots[q].recv_counts[r]; }

  // This rank's share of each operation (collectives.cpp).
  void share(const Operation& op, const std::vector<Header>& headers) const;
  void share_all_reduce(const Operation& op, const std::vector<double>& scales) const;
  void share_reduce(const Operation& op, const std::vector<double>& scales) const;
  void share_reduce_scatter(const Operation& op, const std::vector<double>& scales) const;
  void share_all_gather(const Operation& op) const;
  void share_broadcast(const Operation& op) const;
  void share_gather(const Operation& op) const;
  void share_scatter(const Operation& op) const;
  void share_all_to_all(const Operation& op) const;
  void share_tree(const Operation& op, const std::vector<Header>& headers) const;
  std::vector<const void*> nodes_at(std::int64_t offset) const;  // all ranks' nodes, in order

  const std::shared_ptr<Group> group_;
  const std::shared_ptr<Allocator> allocator_;
  std::int64_t operations_ = 0;
};

}  // namespace shoal::comm::local
