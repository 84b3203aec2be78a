// Where the Store is served: TCP at a host and port, or an abstract Unix socket of this host.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "comm/store/fd.hpp"

namespace shoal::comm::store {

using Clock = std::chrono::steady_clock;

struct Address {
  std::string host;  // a name or a number, without brackets
  int port = 0;
  std::string local;  // the abstract socket's name, without '@'; then host is empty

  bool is_local() const { return !local.empty(); }
  std::string text() const;                       // as parse() takes it
  static Address parse(const std::string& text);  // throws ConfigError
};

// True when every address that the host stands for is on loopback. Throws ConfigError when it stands for none.
bool on_loopback(const Address& address);

// Sockets that listen on each address the host stands for, and on no other; none of them blocks. Port 0 is replaced
// by the one that was found. Throws ConfigError when none of the addresses is this host's, or the port is taken.
std::vector<Fd> listen_on(Address& address);

// A connected socket that does not block. Tries the addresses in turn until one answers; while nobody listens yet it
// tries again until the deadline. Throws TimeoutError with what each address said.
Fd connect_to(const Address& address, Clock::time_point deadline);

// Neither delays small frames nor keeps a connection whose other host is gone.
void tune(int fd);

// Whether the process at the other end of a connection on this host belongs to this user: told by the socket (Unix) or
// by the kernel's table of connections (TCP). False when that cannot be known.
bool peer_is_same_user(int fd);

}  // namespace shoal::comm::store
