#include "comm/store/client.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "shoal/core/error.hpp"

namespace shoal::comm::store {
namespace {

constexpr std::chrono::milliseconds pause{50};       // after a handshake that was cut off
constexpr std::size_t piece = std::size_t{1} << 20;  // read at once: memory grows with what has come

}  // namespace

Client::Client(const Address& address, const StoreOptions& options, Clock::time_point deadline)
    : largest_reply_(options.limits.reply + piece) {
  const auto closes = [&] {
    return TimeoutError(
        fmt::format("whoever listens at {} closes the connection without an answer", address.text()));
  };
  for (bool before = false;; before = true) {
    fd_ = connect_to(address, deadline);
    try {
      if (handshake(address, options, deadline)) return;
    } catch (const TimeoutError&) {  // the last of several
      if (before) throw closes();
      throw;
    }
    if (Clock::now() + pause > deadline) throw closes();
    std::this_thread::sleep_for(pause);
  }
}

bool Client::handshake(const Address& address, const StoreOptions& options, Clock::time_point deadline) {
  const TokenField token = token_field(options.token);
  Greeting greeting{};
  try {
    write(std::string_view(token.data(), token.size()), deadline);
    read(greeting.data(), greeting.size(), deadline);
  } catch (const Disconnected&) {
    return false;
  }
  if (greeting == refused)
    throw ConfigError(
        fmt::format("the store at {} refused the token of this rank: SHOAL_TOKEN (or the content of "
                    "SHOAL_TOKEN_FILE) must be the same on all ranks",
                    address.text()));
  if (greeting != accepted)
    throw ConfigError(fmt::format("what listens at {} is no store of Shoal", address.text()));
  if ((options.token.empty() || address.is_local()) && !peer_is_same_user(fd_.get()))
    throw ConfigError(fmt::format(
        "the store at {} is served by another user's process: set SHOAL_TOKEN on all ranks", address.text()));
  std::string reply;
  try {
    reply = call(std::move(Writer(Op::hello)
                               .u32(protocol_version)
                               .u32(static_cast<std::uint32_t>(options.rank))
                               .u32(static_cast<std::uint32_t>(options.size)))
                     .take(),
                 deadline);
  } catch (const Disconnected&) {
    return false;
  }
  Reader in(reply);
  if (static_cast<Status>(in.u8()) != Status::ok)
    throw ConfigError(fmt::format("the store at {} refused this rank: {}", address.text(), in.text()));
  return true;
}

Client::~Client() {
  if (!fd_) return;
  const std::string bytes = frame(Writer(Op::goodbye).take());
  [[maybe_unused]] const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

std::string Client::call(const std::string& request, Clock::time_point deadline) {
  try {
    write(frame(request), deadline);
    char header[frame_header];
    read(header, frame_header, deadline);
    const std::size_t length = frame_length(header);
    if (length == 0 || length > largest_reply_)
      throw Disconnected(
          fmt::format("an answer of {} bytes; at most {} are accepted", length, largest_reply_));
    std::string reply;
    while (reply.size() < length) {
      const std::size_t before = reply.size(), more = std::min(piece, length - before);
      reply.resize(before + more);
      read(reply.data() + before, more, deadline);
    }
    return reply;
  } catch (...) {
    drop();
    throw;
  }
}

void Client::ready(short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd p{fd_.get(), events, 0};
    const int n = ::poll(&p, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30)));
    if (n > 0) return;
    if (n == 0 && left <= 0) throw TimeoutError("the store's server does not answer");
    if (n < 0 && errno != EINTR) throw Disconnected(std::strerror(errno));
  }
}

void Client::write(std::string_view bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0)
      bytes.remove_prefix(static_cast<std::size_t>(n));
    else if (errno == EAGAIN)
      ready(POLLOUT, deadline);
    else if (errno != EINTR)
      throw Disconnected(std::strerror(errno));
  }
}

void Client::read(char* to, std::size_t size, Clock::time_point deadline) {
  while (size > 0) {
    const ssize_t n = ::recv(fd_.get(), to, size, 0);
    if (n > 0) {
      to += n;
      size -= static_cast<std::size_t>(n);
    } else if (n == 0) {
      throw Disconnected("it closed the connection");
    } else if (errno == EAGAIN) {
      ready(POLLIN, deadline);
    } else if (errno != EINTR) {
      throw Disconnected(std::strerror(errno));
    }
  }
}

}  // namespace shoal::comm::store
