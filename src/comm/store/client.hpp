// One connection of a rank to the Store's server: a request, then its reply.
#pragma once
#include <string>

#include "comm/store/address.hpp"
#include "comm/store/wire.hpp"

namespace shoal::comm::store {

// The connection broke: whatever it was asked has an unknown outcome.
class Disconnected : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Client {
 public:
  // Connects and shows the token, again until the deadline where nobody serves yet. Throws ConfigError when the server
  // refuses, TimeoutError.
  Client(const Address& address, const StoreOptions& options, Clock::time_point deadline);
  // Says goodbye, if it can at once.
  ~Client();
  Client(Client&&) noexcept = default;
  Client& operator=(Client&&) noexcept = default;

  // Throws Disconnected, and TimeoutError past the deadline; the connection is then of no more use.
  std::string call(const std::string& request, Clock::time_point deadline);
  // Closes without a goodbye.
  void drop() { fd_.reset(); }

 private:
  // False: the connection closed before there was an answer.
  bool handshake(const Address& address, const StoreOptions& options, Clock::time_point deadline);
  void write(std::string_view bytes, Clock::time_point deadline);
  void read(char* to, std::size_t size, Clock::time_point deadline);
  void ready(short events, Clock::time_point deadline);

  Fd fd_;
  std::size_t largest_reply_;
};

}  // namespace shoal::comm::store
