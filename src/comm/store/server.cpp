#include "comm/store/server.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "shoal/core/error.hpp"
#include "shoal/core/log.hpp"

namespace shoal::comm::store {
namespace {

constexpr std::chrono::seconds linger{5};             // for answers that are under way when serving ends
constexpr std::chrono::milliseconds breath{100};      // before accepting again when descriptors have run out
constexpr std::size_t piece = std::size_t{64} << 10;  // read at once

bool needs_no_token(const Address& address, const std::string& token) {
  if (!token.empty()) return false;
  if (!on_loopback(address))
    throw ConfigError(fmt::format(
        "the store at {} can be reached from other hosts, so the job needs a secret: set SHOAL_TOKEN on "
        "all ranks to the same {} to {} characters (openssl rand -hex 16 makes them), or SHOAL_TOKEN_FILE "
        "to a file (mode 0600) that holds them",
        address.text(), shortest_token, longest_token));
  return true;
}

}  // namespace

Server::Server(Address address, const std::string& token, int size, const StoreLimits& limits)
    : address_(std::move(address)),
      token_(token_field(token)),
      same_user_(needs_no_token(address_, token) || address_.is_local()),
      size_(size),
      limits_(limits),
      listeners_(listen_on(address_)),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      table_(size, limits) {
  if (!wake_)
    throw CommError(fmt::format("the store at {}: eventfd: {}", address_.text(), std::strerror(errno)));
  thread_ = std::thread([this] { run(); });
}

Server::~Server() {
  stop_.store(true);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  thread_.join();
}

std::optional<Table::Failure> Server::failure() const {
  std::lock_guard lock(mutex_);
  return failed_;
}

void Server::run() {
  log::debug(fmt::format("serving the store at {} for {} ranks", address_.text(), size_));
  while (!stop_.load()) poll_once();
  listeners_.clear();
  const auto end = Clock::now() + linger;
  while (!idle() && Clock::now() < end) poll_once();
}

bool Server::idle() const {
  return !table_.waiting() &&
         std::all_of(open_.begin(), open_.end(), [](const auto& c) { return c.second.out.empty(); });
}

int Server::poll_timeout(Clock::time_point now) const {
  auto next = now + (stop_.load() ? Clock::duration(breath) : std::chrono::hours(1));
  if (const auto deadline = table_.next_deadline()) next = std::min(next, *deadline);
  if (accept_again_ > now) next = std::min(next, accept_again_);
  for (const auto& [id, c] : open_)
    if (c.stranger() || c.state == State::closing) next = std::min(next, c.deadline);
  return static_cast<int>(
      std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(next - now).count()));
}

void Server::poll_once() {
  std::vector<pollfd> fds;
  std::vector<Id> ids;
  const auto before = Clock::now();
  if (!stop_.load()) fds.push_back({wake_.get(), POLLIN, 0});
  const bool accepting = before >= accept_again_;
  if (accepting)
    for (const Fd& l : listeners_) fds.push_back({l.get(), POLLIN, 0});
  const std::size_t first = fds.size();
  for (const auto& [id, c] : open_) {
    short events = POLLRDHUP;
    if (c.state != State::waiting && c.state != State::closing && c.out.empty()) events |= POLLIN;
    if (!c.out.empty()) events |= POLLOUT;
    fds.push_back({c.fd.get(), events, 0});
    ids.push_back(id);
  }
  if (::poll(fds.data(), fds.size(), poll_timeout(before)) < 0 && errno != EINTR) return;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto events = fds[first + i].revents;
    Connection& c = open_.at(ids[i]);
    if (events & POLLOUT) flush(c);
    if (events & POLLIN)
      read(ids[i], c);
    else if (events & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL))
      lost(ids[i], c);
  }
  if (accepting)
    for (const Fd& l : listeners_) accept_some(l.get());
  table_.expire(Clock::now());
  deliver();
  sweep(Clock::now());
}

// A few at a time: those that are in are served between them.
void Server::accept_some(int listener) {
  for (int taken = 0; taken < 16; ++taken) {
    Fd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        accept_again_ = Clock::now() + breath;
      return;
    }
    make_room();
    tune(fd.get());
    Connection c;
    c.fd = std::move(fd);
    c.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(limits_.handshake);
    open_.emplace(next_++, std::move(c));
    connections_.store(static_cast<int>(open_.size()), std::memory_order_relaxed);
  }
}

// One more stranger may come: the oldest one goes, which had the most time to show its token.
void Server::make_room() {
  const auto stranger = [](const auto& entry) { return entry.second.stranger(); };
  if (std::count_if(open_.begin(), open_.end(), stranger) < limits_.pending) return;
  open_.erase(std::find_if(open_.begin(), open_.end(), stranger));
}

void Server::read(Id id, Connection& c) {
  char buffer[piece];
  const ssize_t n =
      ::recv(c.fd.get(), buffer, c.state == State::token ? token_.size() - c.in.size() : sizeof buffer, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return lost(id, c);
  c.in.append(buffer, static_cast<std::size_t>(n));
  consume(id, c);
}

void Server::consume(Id id, Connection& c) {
  if (c.state == State::token) return check_token(c);
  if (c.state == State::waiting || c.state == State::closing || c.in.size() < frame_header) return;
  char header[frame_header];
  std::memcpy(header, c.in.data(), frame_header);
  const std::size_t length = frame_length(header);
  if (length > limits_.frame)
    return refuse(c, fmt::format("a frame of {} bytes; at most {} are accepted", length, limits_.frame));
  if (c.in.size() < frame_header + length) return;
  if (c.in.size() > frame_header + length) return refuse(c, "a frame before the last one was answered");
  const std::string payload = c.in.substr(frame_header);
  c.in.clear();
  try {
    request(id, c, payload);
  } catch (const MalformedFrame& e) {
    refuse(c, fmt::format("a malformed frame: {}", e.what()));
  }
}

void Server::check_token(Connection& c) {
  if (c.in.size() < token_.size()) return;
  TokenField shown;
  std::copy(c.in.begin(), c.in.end(), shown.begin());
  c.in.clear();
  bool right = equal_in_constant_time(shown, token_);
  // Asked last: the kernel's table of connections takes milliseconds to read where it is long.
  if (right && same_user_ && !peer_is_same_user(c.fd.get())) {
    log::warn_once(fmt::format("the store at {} turned away a process of another user", address_.text()));
    c.state = State::closing;
    return;
  }
  c.state = right ? State::hello : State::closing;
  const Greeting& greeting = right ? accepted : refused;
  if (!right)
    log::warn_once(fmt::format("the store at {} refused a connection with a wrong token", address_.text()));
  send(c, std::string(greeting.begin(), greeting.end()));
}

void Server::request(Id id, Connection& c, const std::string& payload) {
  if (c.state == State::hello) return hello(c, payload);
  if (!payload.empty() && static_cast<Op>(payload[0]) == Op::goodbye) {
    c.rank = -1;  // leaves in peace
    gone_.push_back(id);
    return;
  }
  c.state = State::waiting;
  table_.handle(id, c.rank, payload, Clock::now());
  deliver();
}

void Server::hello(Connection& c, const std::string& payload) {
  Reader in(payload);
  if (static_cast<Op>(in.u8()) != Op::hello)
    throw MalformedFrame("the first one does not say who it is from");
  const std::uint32_t version = in.u32();
  const int rank = static_cast<int>(in.u32()), size = static_cast<int>(in.u32());
  in.end();
  if (version != protocol_version)
    return refuse(c, fmt::format("protocol version {}, but the server has {}: another release of Shoal",
                                 version, protocol_version));
  if (size != size_ || rank < 0 || rank >= size_)
    return refuse(c, fmt::format("rank {} of {}, but the store serves {} ranks", rank, size, size_));
  const auto same = [rank](const auto& entry) { return entry.second.rank == rank; };
  if (std::count_if(open_.begin(), open_.end(), same) >= limits_.per_rank)
    return refuse(c, fmt::format("rank {} has {} connections already", rank, limits_.per_rank));
  c.rank = rank;
  c.state = State::ready;
  send(c, frame(Writer(Status::ok).take()));
}

void Server::send(Connection& c, const std::string& bytes) {
  c.out += bytes;
  flush(c);
}

void Server::refuse(Connection& c, const std::string& why) {
  log::warn_once(fmt::format("the store at {} refused a connection: {}", address_.text(), why));
  c.state = State::closing;
  c.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(limits_.handshake);
  send(c, frame(std::move(Writer(Status::refused).text(why)).take()));
}

void Server::flush(Connection& c) {
  while (c.sent < c.out.size()) {
    const ssize_t n = ::send(c.fd.get(), c.out.data() + c.sent, c.out.size() - c.sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;  // full, or broken, which poll tells
    c.sent += static_cast<std::size_t>(n);
  }
  c.out.clear();
  c.sent = 0;
}

void Server::lost(Id id, const Connection& c) {
  gone_.push_back(id);
  if (c.rank >= 0 && c.state != State::closing)
    table_.fail(c.rank, fmt::format("rank {} was lost: its connection to the store at {} closed", c.rank,
                                    address_.text()));
}

void Server::deliver() {
  // Before a rank hears of it and ends, so that who asks then finds the cause.
  if (table_.failure() && !failed_) {
    std::lock_guard lock(mutex_);
    failed_ = table_.failure();
  }
  for (auto& [id, payload] : table_.take_replies()) {
    const auto found = open_.find(id);
    if (found == open_.end()) continue;
    if (found->second.state == State::waiting) found->second.state = State::ready;
    send(found->second, frame(payload));
  }
}

// Closes what is to be closed.
void Server::sweep(Clock::time_point now) {
  for (const auto& [id, c] : open_)
    if ((c.state == State::closing && (c.out.empty() || now >= c.deadline)) ||
        (c.stranger() && now >= c.deadline))
      gone_.push_back(id);
  for (const Id id : std::exchange(gone_, {})) {
    table_.drop(id);
    open_.erase(id);
  }
  connections_.store(static_cast<int>(open_.size()), std::memory_order_relaxed);
}

}  // namespace shoal::comm::store
