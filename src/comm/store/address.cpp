#include "comm/store/address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>

#include "shoal/core/error.hpp"

namespace shoal::comm::store {
namespace {

constexpr std::chrono::milliseconds first_pause{10}, longest_pause{250};
constexpr std::chrono::seconds one_address{5};  // for one address to answer, before the next is tried

struct Target {
  sockaddr_storage storage{};
  socklen_t length = 0;
  int family() const { return storage.ss_family; }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

std::string number_text(const Target& t) {
  char host[NI_MAXHOST] = {};
  if (::getnameinfo(t.get(), t.length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return "?";
  return host;
}

Target unix_target(const Address& address) {
  Target t;
  auto* un = reinterpret_cast<sockaddr_un*>(&t.storage);
  un->sun_family = AF_UNIX;
  std::memcpy(un->sun_path + 1, address.local.data(), address.local.size());  // begins with a zero: abstract
  t.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + address.local.size());
  return t;
}

std::vector<Target> resolve(const Address& address) {
  if (address.is_local()) return {unix_target(address)};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* raw = nullptr;
  const int error = ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &raw);
  if (error != 0)
    throw ConfigError(fmt::format("the host {} of {} is not known: {}", address.host, address.text(),
                                  error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error)));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(raw, &::freeaddrinfo);
  std::vector<Target> targets;
  for (const addrinfo* a = list.get(); a; a = a->ai_next) {
    if (a->ai_family != AF_INET && a->ai_family != AF_INET6) continue;
    Target t;
    std::memcpy(&t.storage, a->ai_addr, a->ai_addrlen);
    t.length = a->ai_addrlen;
    const bool known = std::any_of(targets.begin(), targets.end(), [&](const Target& other) {
      return other.length == t.length && std::memcmp(&other.storage, &t.storage, t.length) == 0;
    });
    if (!known) targets.push_back(t);
  }
  return targets;
}

in_addr_t ipv4(const Target& t) {
  return ntohl(reinterpret_cast<const sockaddr_in*>(&t.storage)->sin_addr.s_addr);
}
const in6_addr& ipv6(const Target& t) { return reinterpret_cast<const sockaddr_in6*>(&t.storage)->sin6_addr; }

bool loopback(const Target& t) {
  if (t.family() == AF_UNIX) return true;
  if (t.family() == AF_INET) return ipv4(t) >> 24 == 127;
  return IN6_IS_ADDR_LOOPBACK(&ipv6(t)) || (IN6_IS_ADDR_V4MAPPED(&ipv6(t)) && ipv6(t).s6_addr[12] == 127);
}

bool wildcard(const Target& t) {
  return (t.family() == AF_INET && ipv4(t) == INADDR_ANY) ||
         (t.family() == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&ipv6(t)));
}

void set_port(Target& t, int port) {
  const auto value = htons(static_cast<std::uint16_t>(port));
  if (t.family() == AF_INET) reinterpret_cast<sockaddr_in*>(&t.storage)->sin_port = value;
  if (t.family() == AF_INET6) reinterpret_cast<sockaddr_in6*>(&t.storage)->sin6_port = value;
}

int port_of(int fd) {
  Target t;
  t.length = sizeof t.storage;
  if (::getsockname(fd, t.get(), &t.length) != 0) return 0;
  return ntohs(t.family() == AF_INET ? reinterpret_cast<sockaddr_in*>(&t.storage)->sin_port
                                     : reinterpret_cast<sockaddr_in6*>(&t.storage)->sin6_port);
}

// 0, or the error.
int try_listen(const Target& t, Fd& fd) {
  fd = Fd(::socket(t.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return errno;
  const int on = 1;
  if (t.family() != AF_UNIX) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (t.family() == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (::bind(fd.get(), t.get(), t.length) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) return errno;
  return 0;
}

// 0, or the error.
int try_connect(const Target& t, Clock::time_point deadline, Fd& fd) {
  fd = Fd(::socket(t.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return errno;
  if (::connect(fd.get(), t.get(), t.length) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        std::min<Clock::duration>(deadline - Clock::now(), one_address));
    pollfd p{fd.get(), POLLOUT, 0};
    const int n = ::poll(&p, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return ETIMEDOUT;
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
  }
}

}  // namespace

std::string Address::text() const {
  if (is_local()) return "unix:@" + local;
  const bool ipv6 = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", ipv6 ? "[" : "", host, ipv6 ? "]" : "", port);
}

Address Address::parse(const std::string& text) {
  const auto bad = [&](const char* why) -> ConfigError {
    return ConfigError(
        fmt::format("store address {}: {}; expected host:port, [ipv6]:port or unix:@name", text, why));
  };
  Address a;
  if (text.rfind("unix:", 0) == 0) {
    a.local = text.substr(std::min<std::size_t>(text.size(), 6));
    if (text.size() < 7 || text[5] != '@') throw bad("no name after unix:@");
    if (a.local.size() > sizeof(sockaddr_un::sun_path) - 1) throw bad("its name is too long");
    return a;
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) throw bad("no port");
  a.host = text.substr(0, colon);
  if (a.host.size() > 1 && a.host.front() == '[' && a.host.back() == ']')
    a.host = a.host.substr(1, a.host.size() - 2);
  else if (a.host.find(':') != std::string::npos)
    throw bad("an IPv6 address stands in brackets");
  if (a.host.empty()) throw bad("no host");
  const char* first = text.data() + colon + 1;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(first, last, a.port);
  if (error != std::errc() || end != last || a.port < 0 || a.port > 65535)
    throw bad("its port is no number from 1 to 65535");
  return a;
}

bool on_loopback(const Address& address) {
  const auto targets = resolve(address);
  return std::all_of(targets.begin(), targets.end(), loopback);
}

std::vector<Fd> listen_on(Address& address) {
  std::vector<Fd> fds;
  std::string tried;
  for (Target& t : resolve(address)) {
    if (wildcard(t))
      throw ConfigError(
          fmt::format("{} means every address of this host, not the one to meet at: give rank 0's address",
                      address.text()));
    if (!address.is_local() && address.port != 0) set_port(t, address.port);
    Fd fd;
    const int error = try_listen(t, fd);
    if (error == 0) {
      if (!address.is_local()) address.port = port_of(fd.get());
      fds.push_back(std::move(fd));
      continue;
    }
    if (error == EADDRINUSE || error == EACCES)
      throw ConfigError(fmt::format(
          "rank 0 cannot serve the store at {}: {}", address.text(),
          error == EACCES ? "the port needs privileges" : "another program (or another job) has the port"));
    tried += fmt::format("{}{}: {}", tried.empty() ? "" : ", ", number_text(t), std::strerror(error));
  }
  if (fds.empty())
    throw ConfigError(
        fmt::format("rank 0 cannot serve the store at {} ({}): it must run on the host of that address",
                    address.text(), tried));
  return fds;
}

Fd connect_to(const Address& address, Clock::time_point deadline) {
  Clock::duration pause = first_pause;
  for (;;) {
    std::string tried;
    for (const Target& t : resolve(address)) {
      Fd fd;
      const int error = try_connect(t, deadline, fd);
      if (error == 0) {
        tune(fd.get());
        return fd;
      }
      tried += fmt::format("{}{}: {}", tried.empty() ? "" : ", ",
                           address.is_local() ? "this host" : number_text(t), std::strerror(error));
    }
    if (Clock::now() + pause > deadline)
      throw TimeoutError(fmt::format("nobody serves the store at {} ({})", address.text(), tried));
    std::this_thread::sleep_for(pause);
    pause = std::min<Clock::duration>(2 * pause, longest_pause);
  }
}

void tune(int fd) {
  const int on = 1, idle = 30, interval = 10, probes = 3;
  // Unix sockets refuse these, and do not need them.
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

}  // namespace shoal::comm::store
