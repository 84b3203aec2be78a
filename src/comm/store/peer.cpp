// Whose process is at the other end. A TCP socket does not say; the kernel's table of connections does, for both ends of
// one that stays on this host.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "comm/store/address.hpp"

namespace shoal::comm::store {
namespace {

// An address as /proc/net/tcp and tcp6 write it: 32-bit words in the machine's order, then the port.
std::string as_in_proc(const sockaddr_storage& s) {
  char text[48] = {};
  if (s.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(s);
    std::snprintf(text, sizeof text, "%08X:%04X", in.sin_addr.s_addr, ntohs(in.sin_port));
  } else {
    const auto& in = reinterpret_cast<const sockaddr_in6&>(s);
    std::uint32_t word[4];
    std::memcpy(word, &in.sin6_addr, sizeof word);
    std::snprintf(text, sizeof text, "%08X%08X%08X%08X:%04X", word[0], word[1], word[2], word[3],
                  ntohs(in.sin6_port));
  }
  return text;
}

bool listed_with_our_user(const char* table, const std::string& local, const std::string& remote) {
  std::ifstream in(table);
  std::string line;
  while (std::getline(in, line)) {
    char slot[16], from[48], to[48], state[8], queues[32], timer[32], retries[32];
    unsigned long user = 0;
    if (std::sscanf(line.c_str(), "%15s %47s %47s %7s %31s %31s %31s %lu", slot, from, to, state, queues,
                    timer, retries, &user) == 8 &&
        from == local && to == remote)
      return user == ::geteuid();
  }
  return false;
}

}  // namespace

bool peer_is_same_user(int fd) {
  sockaddr_storage ours{}, theirs{};
  socklen_t our_size = sizeof ours, their_size = sizeof theirs;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&ours), &our_size) != 0) return false;
  if (ours.ss_family == AF_UNIX) {
    ucred credentials{};
    socklen_t size = sizeof credentials;
    return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 &&
           credentials.uid == ::geteuid();
  }
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&theirs), &their_size) != 0) return false;
  const char* table = ours.ss_family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6";
  return listed_with_our_user(table, as_in_proc(theirs), as_in_proc(ours));
}

}  // namespace shoal::comm::store
