// Ranks of one host, as threads of one process or as processes: one protocol over one control block (control.hpp).
//
// An operation begins at a meeting, where every rank shows what it calls and where its buffers lie. Then one of:
//  inline  the data are a few KB and were shown with it: each rank takes what it needs, and is done;
//  direct  all ranks see the buffers (threads always, processes where they come from allocator()): each rank computes
//          its share from everybody's buffers and writes it where it belongs, and they part at a second meeting;
//  apart   each rank can read the others' memory by a system call: the same, of reading alone, for all that only moves
//          data, all_reduce and reduce_scatter (apart.cpp);
//  staged  otherwise: data go through the ranks' stages in steps, one meeting a step, two stages alternating.
#pragma once
#include <memory>
#include <vector>

#include "comm/backends/local/group.hpp"
#include "comm/backends/local/talk.hpp"
#include "comm/host_communicator.hpp"
#include "comm/tree_sum.hpp"

namespace shoal::comm::local {

// Whether an operation on this many bytes reads buffers where they lie in other processes, if it can (apart.cpp).
bool copied_apart(Kind kind, std::int64_t bytes, const Tuning& tuning);
// A copy; stream: past the caches.
void copy_out(void* to, const void* from, std::int64_t n, bool stream);

class LocalCommunicator final : public HostCommunicator {
 public:
  LocalCommunicator(std::shared_ptr<Group> group, std::shared_ptr<Allocator> allocator);
  ~LocalCommunicator() override;

  std::string name() const override { return group_->about.name; }
  std::string backend() const override { return group_->about.backend; }
  std::shared_ptr<Communicator> split(int color, int key) override;
  std::shared_ptr<Allocator> allocator() override { return allocator_; }
  void abort(const std::string& reason) noexcept override;
  void fail_all(Failure::Kind kind, const std::string& message) noexcept override;
  std::string describe_algorithm(std::string_view operation, std::int64_t nbytes, bool direct) const override;
  const std::shared_ptr<Group>& group() const { return group_; }

 private:
  enum class Path { in_line, direct, apart, staged };

  void collective(const Operation& op) override;
  std::unique_ptr<Transfer> transfer(const Operation& op) override;
  void require_working() override { group_->check(); }
  std::exception_ptr message_failed(const Operation& op, std::exception_ptr error) override;

  void run(const Operation& op, void* in, void* out);
  void meet(const Operation& op, bool decide);  // the first meeting of an operation
  void meet_again(const Operation& op);         // a later one
  Group::What what(const Operation& op) const;
  void take_headers(const Operation& op);
  std::shared_ptr<Block> make_child(const Operation& op, const std::string& name,
                                    const std::vector<int>& members);

  // -- what is shown, and by which path all ranks go on (show.cpp)
  void show_buffers(const Operation& op, Show& mine);
  BufferRef ref_of(const void* p, std::int64_t bytes) const;
  Path path() const;
  void view(const Operation& op);
  // While all buffers are in place: rank q's.
  const std::byte* in_of(int q) const { return views_[q].in; }
  std::byte* out_of(int q) const { return views_[q].out; }
  // Elements that rank q sends to rank r, and expects of it, in an all_to_all_v.
  std::int64_t sent(int q, int r) const { return group_->show(operations, q, begun_).counts[0][r]; }
  std::int64_t expected(int q, int r) const { return group_->show(operations, q, begun_).counts[1][r]; }
  std::int64_t offset_at(const Operation& op, int q) const;

  // -- this rank's share of each operation (collectives.cpp)
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
  bool past_caches(const Operation& op, const void* in, const void* out) const;
  std::vector<const void*> nodes_at(std::int64_t offset) const;  // all ranks' nodes, in order

  // -- from where each rank's buffers lie (apart.cpp)
  bool copies_apart(const Operation& op, std::int64_t window) const;
  void read_apart(const Operation& op, int q, const std::byte* from, bool apart, void* to,
                  std::int64_t n) const;
  void read_input(const Operation& op, int q, std::int64_t offset, void* to, std::int64_t n) const;
  void sum_apart(const Operation& op, std::int64_t offset, std::int64_t count, std::byte* sum, bool stream);
  void all_reduce_apart(const Operation& op);
  void share_apart(const Operation& op);

  // -- staged and inline (staged.cpp)
  std::int64_t window(const Operation& op, std::int64_t bytes, int nodes) const;
  std::int64_t steps(const Operation& op, std::int64_t window) const;
  std::int64_t shown_bytes(const Operation& op, std::int64_t window) const;
  void publish(const Operation& op, std::int64_t step, std::int64_t window, std::byte* to) const;
  void consume(const Operation& op, std::int64_t step, std::byte* result);
  void collect(const Operation& op, std::int64_t step) const;
  void stage(const Operation& op);
  void commit_stage(const Operation& op);
  bool in_parts(const Operation& op) const;

  const std::shared_ptr<Group> group_;
  const std::shared_ptr<Allocator> allocator_;
  Talk talk_;
  std::int64_t operations_ = 0, meetings_ = 0;
  bool stage_committed_ = false;

  // Of the operation that runs.
  struct View {
    const std::byte* in = nullptr;
    std::byte* out = nullptr;
    bool in_apart = false, out_apart = false;  // these are addresses in that rank's process
    std::vector<const void*> nodes;
    const std::byte* data = nullptr;  // of this step: inline, or in the stage
    std::int64_t window = 0;
  };
  const std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
  std::int64_t begun_ = 0;  // the meeting at which it began
  std::vector<Header> headers_;
  std::vector<View> views_;
  std::vector<const void*> sources_;
  std::vector<double> scales_;
  std::vector<std::byte> apart_;  // blocks read from the others
  std::unique_ptr<TreeSum> tree_;
};

}  // namespace shoal::comm::local
