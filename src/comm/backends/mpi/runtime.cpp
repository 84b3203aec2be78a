#include "comm/backends/mpi/runtime.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "comm/wait.hpp"
#include "shoal/core/error.hpp"
#include "shoal/core/log.hpp"
#include "shoal/core/threads.hpp"

namespace shoal::comm::mpi {
namespace {

std::atomic<Runtime*> the_runtime{nullptr};

bool mpi_is(int (*question)(int*)) {
  int yes = 0;
  question(&yes);
  return yes != 0;
}

// A message of the control channel: a letter, and for a failure its kind, the communicator's id and the text.
constexpr char failure_told = 'F', leaving = 'L';

}  // namespace

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommError(fmt::format("{} failed: {}", call, std::string(text, length)));
}

Runtime& Runtime::get() {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (Runtime* r = the_runtime.load(std::memory_order_acquire)) return *r;
  auto* made = new Runtime;  // never destroyed: communication threads and the end of the process use it
  the_runtime.store(made, std::memory_order_release);
  return *made;
}

Runtime* Runtime::running() {
  Runtime* r = the_runtime.load(std::memory_order_acquire);
  return r && !mpi_is(MPI_Finalized) ? r : nullptr;
}

Runtime::Runtime() {
  if (mpi_is(MPI_Finalized)) throw CommError("backend mpi: MPI has already been finalized in this process");
  int level = MPI_THREAD_SINGLE;
  if (mpi_is(MPI_Initialized)) {
    check(MPI_Query_thread(&level), "MPI_Query_thread");
  } else {
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
    ours_ = true;
  }
  multiple_ = level >= MPI_THREAD_MULTIPLE;
  threads_ = level >= MPI_THREAD_SERIALIZED;
  if (!threads_)
    log::warn_once(
        "MPI was started for one thread: asynchronous collectives run in the calling thread, without "
        "overlap, and "
        "messages move while somebody waits (call MPI_Init_thread with MPI_THREAD_MULTIPLE or "
        "MPI_THREAD_SERIALIZED, "
        "or let shoal start MPI)");
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  check(MPI_Comm_dup(MPI_COMM_WORLD, &control_), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(control_, MPI_ERRORS_RETURN);
  MPI_Comm host = MPI_COMM_NULL;
  int here = 1;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
        "MPI_Comm_split_type");
  check(MPI_Comm_size(host, &here), "MPI_Comm_size");
  MPI_Comm_free(&host);
  crowded_ = here > hardware_threads();
  left_ = std::vector<std::atomic<bool>>(size_);
  log::debug(fmt::format("MPI: rank {} of {}, {} on this host, thread level {}", rank_, size_, here, level));
  static const pid_t process = ::getpid();
  if (ours_)
    std::atexit([] {
      if (::getpid() == process) the_runtime.load()->finalize();  // a fork is no rank
    });
}

void Runtime::enroll(const std::string& id, const std::shared_ptr<Failure>& failure) {
  std::lock_guard lock(mutex_);
  enrolled_[id] = failure;
  for (const Told& t : told_)
    if (id.starts_with(t.id + "/")) failure->set(t.kind, t.message, t.remote);
}

void Runtime::apply(const std::string& id, Failure::Kind kind, const std::string& message, bool remote) {
  std::vector<std::shared_ptr<Failure>> failed;
  {
    std::lock_guard lock(mutex_);
    told_.push_back({id, kind, message, remote});
    for (auto it = enrolled_.begin(); it != enrolled_.end();) {
      auto failure = it->second.lock();
      if (failure && (it->first == id || it->first.starts_with(id + "/"))) failed.push_back(failure);
      it = failure ? std::next(it) : enrolled_.erase(it);
    }
  }
  for (const auto& f : failed) f->set(kind, message, remote);
}

void Runtime::tell(const std::vector<int>& ranks, const std::string& id, Failure::Kind kind,
                   const std::string& message) {
  apply(id, kind, message, false);
  for (int r : ranks)
    if (r != rank_)
      send(r,
           fmt::format("{}{}{}\n{}", failure_told, kind == Failure::Kind::timeout ? 't' : 'c', id, message));
}

void Runtime::send(int to, std::string text) {
  std::lock_guard lock(mutex_);
  outgoing_.remove_if([this](Outgoing& o) {
    auto serial = this->lock();
    int done = 0;
    MPI_Test(&o.request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  });
  Outgoing& o = outgoing_.emplace_back();
  o.text = std::move(text);
  auto serial = this->lock();
  MPI_Isend(o.text.data(), static_cast<int>(o.text.size()), MPI_CHAR, to, 0, control_, &o.request);
}

void Runtime::poll() {
  std::unique_lock one(polling_, std::try_to_lock);
  if (!one) return;
  while (true) {
    std::string text;
    MPI_Status status;
    {
      auto serial = lock();
      int there = 0;
      if (MPI_Iprobe(MPI_ANY_SOURCE, 0, control_, &there, &status) != MPI_SUCCESS || !there) return;
      int length = 0;
      MPI_Get_count(&status, MPI_CHAR, &length);
      text.resize(length);
      MPI_Recv(text.data(), length, MPI_CHAR, status.MPI_SOURCE, 0, control_, MPI_STATUS_IGNORE);
    }
    received(text, status.MPI_SOURCE);
  }
}

void Runtime::received(const std::string& text, int from) {
  if (text.starts_with(leaving)) {
    left_[from].store(true, std::memory_order_release);
    return;
  }
  const auto newline = text.find('\n');
  if (text.size() < 2 || newline == std::string::npos) return;
  apply(text.substr(2, newline - 2), text[1] == 't' ? Failure::Kind::timeout : Failure::Kind::comm,
        text.substr(newline + 1), true);
}

void Runtime::keep(std::shared_ptr<void> what) {
  std::lock_guard lock(mutex_);
  kept_.push_back(std::move(what));
}

std::string Runtime::next_world() {
  std::lock_guard lock(mutex_);
  return fmt::format("job/{}", worlds_++);
}

std::string Runtime::unique_id() {
  std::lock_guard lock(mutex_);
  return fmt::format("job/of{}.{}", rank_, worlds_++);
}

void Runtime::tell_all(const std::string& message) {
  std::vector<int> all(size_);
  std::iota(all.begin(), all.end(), 0);
  tell(all, "job", Failure::Kind::comm, message);
}

bool Runtime::was_told(const std::string& text) {
  std::lock_guard lock(mutex_);
  return std::any_of(told_.begin(), told_.end(),
                     [&](const Told& t) { return t.remote && text.find(t.message) != std::string::npos; });
}

void Runtime::abort_job() {
  MPI_Abort(MPI_COMM_WORLD, 1);
  ::_exit(1);  // where MPI_Abort came back
}

// At the end of the process. The others learn that this rank is gone, so that one that still waits for it
// fails at once. A job that has failed may never be complete again: then the wait is short and the job is
// ended.
void Runtime::finalize() noexcept {
  if (mpi_is(MPI_Finalized)) return;
  try {
    for (int r = 0; r < size_; ++r)
      if (r != rank_) send(r, std::string(1, leaving));
    MPI_Request all = MPI_REQUEST_NULL;
    MPI_Ibarrier(control_, &all);
    Clock::time_point failed_since{};
    for (Backoff backoff(true);; backoff.pause()) {
      int done = 0;
      MPI_Test(&all, &done, MPI_STATUS_IGNORE);
      if (done) break;
      poll();
      bool failed;
      {
        std::lock_guard lock(mutex_);
        failed = !told_.empty();
      }
      if (!failed) continue;
      if (failed_since == Clock::time_point{}) failed_since = Clock::now();
      if (Clock::now() - failed_since > std::chrono::seconds(10)) abort_job();
    }
    poll();
  } catch (...) {
    abort_job();
  }
  MPI_Finalize();
}

}  // namespace shoal::comm::mpi
