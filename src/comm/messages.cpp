#include "comm/messages.hpp"

#include <utility>

#include "shoal/core/log.hpp"
#include "shoal/core/threads.hpp"

namespace shoal::comm {

class Messages::Pending {
 public:
  Pending(Messenger& owner, Operation op, Event ready, Lane& lane)
      : owner_(owner), op_(std::move(op)), ready_(std::move(ready)), lane_(lane), place_(lane.next++) {}

  // True when it is done. `check`: the moment for what costs more than a look.
  bool step(bool check) {
    try {
      return advance(check);
    } catch (...) {
      std::rethrow_exception(owner_.message_failed(op_, std::current_exception()));
    }
  }
  // Lets go of the tensors.
  void release() {
    transfer_.reset();
    op_ = Operation();
  }

 private:
  bool advance(bool check) {
    if (!transfer_) {
      if (check) owner_.require_working();
      if (!ready_.query() || lane_.serving.load(std::memory_order_acquire) != place_) return false;
      owner_.require_working();
      transfer_ = owner_.transfer(op_);
      since_ = Clock::now();
    }
    const Transfer::State state = transfer_->step();
    if (state != Transfer::State::waiting && !passed_) {
      passed_ = true;
      lane_.serving.store(place_ + 1, std::memory_order_release);
    }
    if (state == Transfer::State::done) return true;
    if (check) transfer_->check(std::chrono::duration<double>(Clock::now() - since_).count());
    return false;
  }

  Messenger& owner_;
  Operation op_;
  const Event ready_;
  Lane& lane_;
  const std::int64_t place_;
  bool passed_ = false;
  Clock::time_point since_{};
  std::unique_ptr<Transfer> transfer_;
};

Messages::Messages(Messenger& owner, int rank, int ranks)
    : owner_(owner), rank_(rank), lanes_(2 * static_cast<std::size_t>(ranks)) {}

std::shared_ptr<Messages::Pending> Messages::add(Operation op, Event ready) {
  const std::size_t half = lanes_.size() / 2;
  Lane& lane = lanes_[(op.kind == Kind::send ? 0 : half) + op.root];
  return std::make_shared<Pending>(owner_, std::move(op), std::move(ready), lane);
}

void Messages::run(std::vector<std::shared_ptr<Pending>> pending, bool threaded) {
  std::exception_ptr first;
  for (Backoff backoff(false);; backoff.pause()) {
    std::erase_if(pending, [&](const std::shared_ptr<Pending>& p) {
      try {
        return p->step(backoff.due());
      } catch (...) {
        if (!first) first = std::current_exception();
        return true;
      }
    });
    if (pending.empty()) break;
    if (!threaded) drive();
  }
  if (first) std::rethrow_exception(first);
}

void Messages::post(std::shared_ptr<Pending> pending, std::shared_ptr<HostWork> work, bool threaded) {
  std::lock_guard lock(mutex_);
  posted_.push_back({std::move(pending), std::move(work)});
  ++posted_count_;
  if (threaded && !thread_.joinable()) thread_ = std::thread([this] { this->work(); });
  changed_.notify_all();
}

bool Messages::step(std::vector<Posted>& all, bool check) {
  bool any = false;
  std::erase_if(all, [&](Posted& p) {
    std::exception_ptr error;
    try {
      if (!p.pending->step(check)) return false;
    } catch (...) {
      error = std::current_exception();
    }
    p.pending->release();
    --posted_count_;
    p.work->complete(error);
    any = true;
    return true;
  });
  return any;
}

void Messages::drive() {
  if (!busy()) return;
  std::unique_lock one(driving_, std::try_to_lock);
  if (!one) return;
  std::vector<Posted> mine;
  {
    std::lock_guard lock(mutex_);
    mine.swap(posted_);
  }
  step(mine, true);
  std::lock_guard lock(mutex_);  // what came meanwhile is later in order, which the lanes keep anyway
  posted_.insert(posted_.begin(), std::make_move_iterator(mine.begin()), std::make_move_iterator(mine.end()));
}

void Messages::work() {
  log::set_rank(rank_);
  set_num_threads(1);
  std::vector<Posted> mine;
  while (true) {
    Backoff backoff(true);
    for (bool idle = false;; backoff.pause()) {
      {
        std::unique_lock lock(mutex_);
        if (mine.empty()) {
          changed_.wait(lock, [&] { return !posted_.empty() || stop_; });
          if (posted_.empty()) return;
        }
        idle = posted_.empty();
        mine.insert(mine.end(), std::make_move_iterator(posted_.begin()),
                    std::make_move_iterator(posted_.end()));
        posted_.clear();
      }
      if (step(mine, backoff.due()) || !idle || mine.empty()) break;  // begin with short pauses again
    }
  }
}

void Messages::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  for (Backoff backoff(true); busy(); backoff.pause()) drive();
}

}  // namespace shoal::comm
